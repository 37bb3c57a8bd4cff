"""Regret in FLOPs, and regret in error against an Indep that cost as much."""

import math
from collections.abc import Mapping, Sequence

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from nevis_stream.analysis import tables as analysis_tables
from nevis_stream.analysis.compute_regret import matched_reference
from nevis_stream.analysis.methods import MethodRegret, method_compute_regret, method_regret
from nevis_stream.analysis.regret import REFERENCE
from nevis_stream.report import svg
from nevis_stream.report.compute_regret_plot import compute_regret_plot
from nevis_stream.report.section import Section
from nevis_stream.report.templates import render

TITLE = "Regret in FLOPs, and at equal compute"


def html(section: Section) -> Markup | None:
    """Returns the curves and a table of their ends; None where there is no method but Indep."""
    flops, errors = section.once(_curves)
    if not flops:
        return None
    picture = None
    if _drawable(section):
        title = (
            "Cumulative FLOPs minus Indep's, and regret against an Indep of equal cost, along the"
            " stream"
        )
        name = f"regret_and_compute-{section.number}"
        picture = svg.wide_and_narrow(
            name, title, lambda wide: compute_regret_plot(flops, errors, section.styles, wide)
        )
    rows = [
        (spent, [(_end(curve), curve.n) for curve in (spent, *at_equal)])
        for spent, *at_equal in zip(flops, *errors.values(), strict=True)
    ]
    remarks = [
        reason
        for curves in (flops, *errors.values())
        for curve in curves
        for reason in curve.reasons
    ]
    legend = [
        (section.styles[spent.group.label], spent.group.label)
        for spent, ends in rows
        if any(n for _, n in ends)
    ]
    values = {
        "titles": list(errors),
        "rows": rows,
        "legend": legend,
        "remarks": list(dict.fromkeys(remarks)),
    }
    return render("parts/compute_regret.html", section=section, picture=picture, **values)


def tables(section: Section) -> dict[str, pd.DataFrame]:
    """Returns `regret_in_flops` and `regret_at_equal_compute`, every run's curves."""
    others = [run for run in section.runs if run.header.learner.casefold() != REFERENCE]
    if not others:
        return {}
    frame = analysis_tables.compute_regrets(section.runs)
    matched = analysis_tables.regrets(section.runs, matched_reference)
    names = {run.name for run in others}
    return {
        "regret_in_flops": frame[frame["run"].isin(names)],
        "regret_at_equal_compute": matched[matched["run"].isin(names)],
    }


def figures(section: Section) -> dict[str, Figure]:
    """Returns `regret_and_compute`; nothing where there is no curve."""
    if not _drawable(section):
        return {}
    flops, errors = section.once(_curves)
    return {
        "regret_and_compute": compute_regret_plot(
            flops, errors, section.styles, wide=True, legend=True
        )
    }


def _curves(
    section: Section,
) -> tuple[Sequence[MethodRegret], Mapping[str, Sequence[MethodRegret]]]:
    """Curves in FLOPs, and in error by panel title, each of every method but Indep."""
    others = [group for group in section.groups if group.learner.casefold() != REFERENCE]
    flops = [method_compute_regret(group, section.runs) for group in others]
    judged, whole = (
        [method_regret(g, section.runs, part, matched_reference) for g in others]
        for part in (True, False)
    )
    panels = {f"Judged tasks (n = {section.judged})": judged}
    tasks = max((len(curve.task_ids) for curve in whole), default=0)
    return flops, panels | (
        {f"Whole stream (n = {tasks})": whole} if tasks > section.judged else {}
    )


def _drawable(section: Section) -> bool:
    flops, errors = section.once(_curves)
    return any(curve.curve for curves in (flops, *errors.values()) for curve in curves)


def _end(curve: MethodRegret) -> float:
    return curve.curve[-1].mean if curve.curve else math.nan
