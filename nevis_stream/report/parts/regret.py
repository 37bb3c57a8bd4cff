"""Regret along the stream, in error and in FLOPs, relative to learning each task alone."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from nevis_stream.analysis import tables as analysis_tables
from nevis_stream.analysis.compute_regret import matched_reference
from nevis_stream.analysis.methods import (
    Find,
    MethodRegret,
    method_compute_regret,
    method_regret,
)
from nevis_stream.analysis.regret import REFERENCE, reference_of
from nevis_stream.analysis.seeds import SeedGroup
from nevis_stream.report import svg
from nevis_stream.report.regret_plot import Panel, regret_plot
from nevis_stream.report.section import Section
from nevis_stream.report.templates import render

TITLE = "Regret: error summed along the stream"
_TITLES = {
    "regret": "Regret relative to Indep along the stream, one line per method",
    "regret_and_compute": "Training FLOPs minus Indep's, and regret at equal compute",
}


@dataclass(frozen=True)
class _Curves:
    """Curves of every method but Indep; those in error by part of the stream."""

    same_budget: Mapping[str, Sequence[MethodRegret]]
    equal_compute: Mapping[str, Sequence[MethodRegret]]
    flops: Sequence[MethodRegret]

    def figures(self) -> dict[str, list[Panel]]:
        """The panels of each figure that has a curve. Where budgets match, regret at equal compute
        is the regret itself and is not drawn again.
        """
        summed = "summed error − Indep's"
        panels = {
            "regret": [Panel(title, summed, curves) for title, curves in self.same_budget.items()],
            "regret_and_compute": [
                Panel("FLOPs, whole stream", "training FLOPs − Indep's", self.flops, True)
            ],
        }
        for title, curves in self.equal_compute.items():
            others = [
                replace(curve, curve=()) if _same(curve, own) else curve
                for curve, own in zip(curves, self.same_budget[title], strict=True)
            ]
            panel = Panel(title, f"{summed}, equal FLOPs", others)
            panels["regret_and_compute"] += [panel] if panel.drawable else []
        return {
            name: each for name, each in panels.items() if any(panel.drawable for panel in each)
        }


def html(section: Section) -> Markup:
    """Returns the curves and a table of their ends, or why there is none."""
    curves = section.once(_curves)
    pictures = {
        name: svg.wide_and_narrow(
            f"{name}-{section.number}",
            _TITLES[name],
            lambda wide, panels=panels: regret_plot(panels, section.styles, wide),
        )
        for name, panels in curves.figures().items()
    }
    by_title = (*curves.same_budget.values(), *curves.equal_compute.values())
    columns = [curves.flops, *by_title]
    reasons = dict.fromkeys(
        reason for column in columns for curve in column for reason in curve.reasons
    )
    judged = next(iter(curves.same_budget.values()))
    legend = [
        (section.styles[c.group.label], f"{c.group.label} (n = {c.n})") for c in judged if c.n
    ]
    rows = [
        (flops, [_end(each[place]) for each in by_title], [each[place].n for each in by_title])
        for place, flops in enumerate(curves.flops)
    ]
    return render(
        "parts/regret.html",
        number=section.number,
        pictures=pictures,
        legend=legend,
        titles=list(curves.same_budget),
        rows=[(flops, _end(flops), list(zip(*ends, strict=True))) for flops, *ends in rows],
        reasons=list(reasons),
    )


def tables(section: Section) -> dict[str, pd.DataFrame]:
    """Returns `regret`, `regret_in_flops` and `regret_at_equal_compute`: every run's curves."""
    found = {"regret": analysis_tables.regrets(section.runs)}
    names = {run.name for run in section.runs if run.header.learner.casefold() != REFERENCE}
    if names:
        flops = analysis_tables.compute_regrets(section.runs)
        matched = analysis_tables.regrets(section.runs, matched_reference)
        found["regret_in_flops"] = flops[flops["run"].isin(names)]
        found["regret_at_equal_compute"] = matched[matched["run"].isin(names)]
    return found


def figures(section: Section) -> dict[str, Figure]:
    """Returns `regret` and `regret_and_compute`; without a curve, nothing."""
    panels = section.once(_curves).figures()
    return {
        name: regret_plot(each, section.styles, wide=True, legend=True)
        for name, each in panels.items()
    }


def _curves(section: Section) -> _Curves:
    others = [group for group in section.groups if group.learner.casefold() != REFERENCE]
    return _Curves(
        _by_part(section, others),
        _by_part(section, others, matched_reference),
        [method_compute_regret(group, section.runs) for group in others],
    )


def _by_part(
    section: Section, groups: Sequence[SeedGroup], find: Find = reference_of
) -> dict[str, Sequence[MethodRegret]]:
    """Curves by panel title; the whole stream only if it is more than the judged part."""
    judged, whole = (
        [method_regret(group, section.runs, part, find) for group in groups]
        for part in (True, False)
    )
    panels = {f"Judged tasks (n = {section.judged})": judged}
    tasks = len(section.tasks)
    return panels | ({f"Whole stream (n = {tasks})": whole} if tasks > section.judged else {})


def _same(curve: MethodRegret, other: MethodRegret) -> bool:
    return [value.mean for value in curve.curve] == [value.mean for value in other.curve]


def _end(curve: MethodRegret) -> float:
    return curve.curve[-1].mean if curve.curve else math.nan
