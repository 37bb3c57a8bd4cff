"""Regret along the stream, relative to learning each task alone."""

from collections.abc import Mapping, Sequence

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from nevis_stream.analysis import tables as analysis_tables
from nevis_stream.analysis.methods import MethodRegret, method_regret
from nevis_stream.analysis.regret import REFERENCE
from nevis_stream.report import svg
from nevis_stream.report.regret_plot import regret_plot
from nevis_stream.report.section import Section
from nevis_stream.report.templates import render

TITLE = "Regret relative to Indep"


def html(section: Section) -> Markup:
    """Returns the curves over the judged tasks and over the whole stream, or why there is none."""
    picture, panels = None, section.once(_panels)
    if _drawable(panels):
        title = "Regret relative to Indep along the stream, one line a method"
        name = f"regret-{section.number}"
        picture = svg.wide_and_narrow(
            name, title, lambda wide: regret_plot(panels, section.styles, wide)
        )
    judged = next(iter(panels.values()))
    legend = [
        (section.styles[c.group.label], f"{c.group.label} (n = {c.n})") for c in judged if c.n
    ]
    curves = [curve for curves in panels.values() for curve in curves]
    reasons = list(dict.fromkeys(reason for curve in curves for reason in curve.reasons))
    return render("parts/regret.html", picture=picture, legend=legend, reasons=reasons)


def tables(section: Section) -> dict[str, pd.DataFrame]:
    """Returns `regret`: every run's curve."""
    return {"regret": analysis_tables.regrets(section.runs)}


def figures(section: Section) -> dict[str, Figure]:
    """Returns `regret`; nothing where no method but Indep has a curve."""
    panels = section.once(_panels)
    return (
        {"regret": regret_plot(panels, section.styles, wide=True, legend=True)}
        if _drawable(panels)
        else {}
    )


def _panels(section: Section) -> Mapping[str, Sequence[MethodRegret]]:
    """Curves by panel title; the whole stream where it is more than the judged part."""
    others = [group for group in section.groups if group.learner.casefold() != REFERENCE]
    judged, whole = (
        [method_regret(group, section.runs, part) for group in others] for part in (True, False)
    )
    panels = {f"Judged tasks (n = {section.judged})": judged}
    tasks = max((len(curve.task_ids) for curve in whole), default=0)
    return panels | ({f"Whole stream (n = {tasks})": whole} if tasks > section.judged else {})


def _drawable(panels: Mapping[str, Sequence[MethodRegret]]) -> bool:
    return any(curve.curve for curves in panels.values() for curve in curves)
