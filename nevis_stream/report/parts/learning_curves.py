"""Learning curves: dev error of the chosen trial against training steps, one small figure
per task.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from nevis_stream.analysis.points import list_learning_curves
from nevis_stream.analysis.seeds import SeedGroup
from nevis_stream.analysis.tables import tabulate_curves
from nevis_stream.report import palette, svg
from nevis_stream.report.names import add_legend_below, make_line, measure_legend
from nevis_stream.report.section import Section
from nevis_stream.report.styles import Style
from nevis_stream.report.svg import Drawing
from nevis_stream.report.templates import render

TITLE = "Learning curves: dev error against steps"
_COLUMNS = 5
_WIDTH, _ROW_HEIGHT, _FOOT_HEIGHT = 8.4, 1.25, 0.65  # inches
Curve = Sequence[tuple[float, float]]
_MOST_POINTS = 60  # of a curve; more would not be visible in a figure 200 pixels high
_MOST_NAMES = 3  # of runs that end equally low
_DIGITS = 5  # of an error in the page's data


def html(section: Section) -> Markup:
    """Returns a frame for each task and the data, which the page's script draws there."""
    data = section.compute_once(_collect)
    return render(
        "parts/learning_curves.html",
        data=data,
        embedded=embed_json(data),
        legend=_make_legend(section),
        number=section.number,
    )


def tables(section: Section) -> dict[str, pd.DataFrame]:
    """Returns `curves`: every point of every curve."""
    return {"curves": tabulate_curves(section.runs)}


def figures(section: Section) -> dict[str, Drawing]:
    """Returns `curves`: all tasks in one grid; nothing if no run has a curve."""
    data = section.compute_once(_collect)
    drawn = {"tasks": [task for task in data["tasks"] if task["lines"]]}
    drawing = Drawing(TITLE, lambda: plot_curves(data | drawn, _make_legend(section)), "")
    return {"curves": drawing} if drawn["tasks"] else {}


def _collect(section: Section) -> dict:
    return collect_curves([row.task_id for row in section.tasks], section.groups, section.styles)


def _make_legend(section: Section) -> list[tuple]:
    return [
        (section.styles[group.label], f"{group.label} (n = {len(group.runs)})")
        for group in section.groups
    ]


def plot_curves(data: Mapping[str, Any], legend: Sequence[tuple[Style, str]]) -> Figure:
    """Draws one panel per task: dev error against steps, on its own scales from zero.

    Args:
      data: as `collect_curves` makes it, less the tasks without a line.
      legend: style and text of each method.
    """
    tasks = data["tasks"]
    columns = min(_COLUMNS, len(tasks))
    rows = math.ceil(len(tasks) / columns)
    named = {name: make_line(style) for style, name in legend}
    foot = _FOOT_HEIGHT + measure_legend(named, _WIDTH)
    height = rows * _ROW_HEIGHT + foot
    # the constrained layout takes minutes for 106 panels
    figure = svg.make_figure(_WIDTH, height, layout=None)
    low, high = foot / height, 1 - 0.25 / height
    figure.subplots_adjust(left=0.06, right=0.98, bottom=low, top=high, wspace=0.32, hspace=0.75)
    for place, task in enumerate(tasks, start=1):
        _draw_panel(figure.add_subplot(rows, columns, place), task, data["runs"])
    with svg.allow_any_script():
        style = {"ha": "center", "va": "top", "size": 8, "color": palette.ink()}
        tail = (
            "dev error of the chosen trial against training steps; a line is one run of n, no bands"
        )
        figure.text(0.5, low - 0.36 / height, tail, **style)
        add_legend_below(figure, named)
    return figure


def _draw_panel(axes, task: Mapping[str, Any], runs: Sequence[Mapping[str, Any]]) -> None:
    svg.style_axes(axes)
    axes.set_title(task["name"], loc="left", size=6.5, color=palette.ink(), pad=2, parse_math=False)
    axes.tick_params(labelsize=5.5, pad=1.5)
    for run, steps, errors in task["lines"]:
        dash = runs[run]["dash"]
        pattern = (0, [float(length) for length in dash.split()]) if dash != "none" else "solid"
        marker = "o" if len(errors) == 1 else None
        colour = palette.series(runs[run]["colour"])
        axes.plot(
            task["steps"][steps],
            errors,
            color=colour,
            linestyle=pattern,
            linewidth=0.9,
            marker=marker,
            markersize=2,
        )
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(MaxNLocator(3))
    axes.yaxis.set_major_locator(MaxNLocator(3))


def collect_curves(
    tasks: Sequence[str], groups: Sequence[SeedGroup], styles: Mapping[str, Style]
) -> dict[str, Any]:
    """Returns `runs` (how each is named and drawn) and `tasks`: for each its name, `steps`, `lines`
    and `lowest`, which says which runs end with the lowest dev error.

    A line is [index of the run, index of its steps, dev errors]: runs that were evaluated at the
    same steps share them.
    """
    runs, curves_of_runs = [], []
    for group in groups:
        style = styles[group.label]
        for run in group.runs:
            seed = f", seed {run.header.seed}" if len(group.runs) > 1 else ""
            runs.append(
                {"name": group.label + seed, "colour": style.colour, "dash": style.dash_array}
            )
            curves_of_runs.append(list_learning_curves(run.ledger))
    return {
        "runs": runs,
        "tasks": [
            _make_task(name, [curves.get(name, []) for curves in curves_of_runs], runs)
            for name in tasks
        ],
    }


def embed_json(data: Any) -> Markup:
    """Returns the data as JSON that no HTML parser takes for markup."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return Markup(text.replace("<", r"\u003c").replace(">", r"\u003e").replace("&", r"\u0026"))


def thin(curve: Curve) -> Curve:
    """Returns at most `_MOST_POINTS` of a curve's points, the first and the last among them."""
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


def _make_task(
    name: str, curves: Sequence[Curve], runs: Sequence[Mapping[str, str]]
) -> dict[str, Any]:
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
