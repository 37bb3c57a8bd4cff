"""The figures of a section as inline SVG, in a wide and a narrow form (the style sheet picks)."""

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from nevis_stream.analysis.curves import learning_curves as curves_of
from nevis_stream.analysis.regret import REFERENCE
from nevis_stream.analysis.seeds import SeedGroup
from nevis_stream.analysis.summary import MethodPoint, MethodRegret
from nevis_stream.report import plane as error_cost_plane
from nevis_stream.report.regret_plot import regret_plot
from nevis_stream.report.small_multiples import small_multiple
from nevis_stream.report.styles import Style
from nevis_stream.report.svg import inline

_FORMS = (("wide", True), ("narrow", False))


def is_reference(group: SeedGroup) -> bool:
    """Whether the method is the one that regret is measured against."""
    return group.learner.casefold() == REFERENCE


def plane(methods: Sequence[MethodPoint], styles: Mapping[str, Style], name: str) -> Markup | None:
    """Returns error against cFLOP, or None where no method can be drawn."""
    if not any(map(error_cost_plane.drawable, methods)):
        return None
    title = "Error against cumulative FLOPs, one mark a method, with the Pareto front"
    return _both(name, title, lambda wide: error_cost_plane.plane(methods, styles, wide))


def regret(
    panels: Mapping[str, Sequence[MethodRegret]],
    styles: Mapping[str, Style],
    name: str,
) -> Markup | None:
    """Returns the regret curves, or None where there is none."""
    if not any(curve.curve for curves in panels.values() for curve in curves):
        return None
    title = "Regret relative to Indep along the stream, one line a method"
    return _both(name, title, lambda wide: regret_plot(panels, styles, wide))


def learning_curves(
    tasks: Sequence[str], groups: Sequence[SeedGroup], styles: Mapping[str, Style]
) -> list[tuple[str, Markup | None]]:
    """Returns (task id, SVG) of every task; None where no run tells a curve."""
    told = [(styles[group.label], curves_of(run.ledger)) for group in groups for run in group.runs]
    pictures = []
    for task in tasks:
        curves = [(style, by_task[task]) for style, by_task in told if by_task.get(task)]
        title = f"Dev error against training steps on {task}"
        pictures.append((task, small_multiple(title, curves) if curves else None))
    return pictures


def _both(name: str, title: str, draw) -> Markup:
    pictures = [(form, inline(draw(wide), name + form, title)) for form, wide in _FORMS]
    frame = Markup('<div class="{}">{}</div>')
    return Markup("").join(frame.format(form, picture) for form, picture in pictures)
