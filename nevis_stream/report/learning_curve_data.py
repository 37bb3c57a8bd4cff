"""Learning curves as the page's script takes them: short, and safe inside of HTML."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from nevis_stream.analysis.learning_curves import learning_curves
from nevis_stream.analysis.seeds import SeedGroup
from nevis_stream.report.styles import Style

Curve = Sequence[tuple[float, float]]

# finer than visible in a figure 200 pixels high
_MOST_POINTS = 60
_MOST_NAMES = 3
_DIGITS = 5


def curve_data(
    tasks: Sequence[str], groups: Sequence[SeedGroup], styles: Mapping[str, Style]
) -> dict[str, Any]:
    """Returns `runs` (how each is named and drawn) and `tasks`: for each its name, `steps`, `lines`
    and `lowest`, which says which runs end with the lowest dev error.

    A line is [index of the run, index of its steps, dev errors]: runs that looked at the same steps
    share them.
    """
    runs, curves_of_runs = [], []
    for group in groups:
        style = styles[group.label]
        for run in group.runs:
            seed = f", seed {run.header.seed}" if len(group.runs) > 1 else ""
            runs.append(
                {"name": group.label + seed, "colour": style.colour, "dash": style.dash_array}
            )
            curves_of_runs.append(learning_curves(run.ledger))
    return {
        "runs": runs,
        "tasks": [
            _task(name, [curves.get(name, []) for curves in curves_of_runs], runs) for name in tasks
        ],
    }


def embedded(data: Any) -> Markup:
    """Returns the data as JSON that no HTML parser takes for markup."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return Markup(text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026"))


def thin(curve: Curve) -> Curve:
    """Returns at most 60 of a curve's points, the first and the last among them."""
    if len(curve) <= _MOST_POINTS:
        return curve
    last = len(curve) - 1
    return [curve[round(i * last / (_MOST_POINTS - 1))] for i in range(_MOST_POINTS)]


def find_lowest(ends: Mapping[str, float]) -> str:
    """Returns which runs end with the lowest dev error, by the three digits that are shown.

    >>> find_lowest({"a": 0.10004, "b": 0.1, "c": 0.2})
    'lowest at the end 0.100, a tie: a; b'
    """
    shown = {name: f"{error:#.3g}" for name, error in ends.items()}
    least = shown[min(ends, key=ends.__getitem__)]
    level = [name for name, text in shown.items() if text == least]
    names = "; ".join(level) if len(level) <= _MOST_NAMES else f"{len(level)} runs"
    return f"lowest at the end {least}{', a tie' if len(level) > 1 else ''}: {names}"


def _task(name: str, curves: Sequence[Curve], runs: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    places: dict[tuple, int] = {}
    lines, ends = [], {}
    for run, curve in enumerate(curves):
        if curve:
            steps, errors = zip(*thin(curve), strict=True)
            shared = places.setdefault(steps, len(places))
            ends[runs[run]["name"]] = errors[-1]
            lines.append([run, shared, [float(f"{error:.{_DIGITS}g}") for error in errors]])
    return {
        "name": name,
        "steps": [list(steps) for steps in places],
        "lines": lines,
        "lowest": find_lowest(ends) if ends else "",
    }
