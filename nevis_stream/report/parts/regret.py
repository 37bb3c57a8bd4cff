"""Regret along the stream, in error and in FLOPs, relative to learning each task alone."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from nevis_stream.analysis import tables as analysis_tables
from nevis_stream.analysis.methods import (
    Find,
    MethodRegret,
    average_flops_regret,
    average_regret,
)
from nevis_stream.analysis.regret import REFERENCE, find_matched_reference, find_reference
from nevis_stream.analysis.seeds import SeedGroup
from nevis_stream.report import palette, svg
from nevis_stream.report.section import Section
from nevis_stream.report.styles import Style
from nevis_stream.report.templates import render

TITLE = "Regret: error above indep's, summed along the stream"
_FLOPS_TITLE, _EQUAL_COMPUTE_TITLE = "Training FLOPs minus indep's", "regret at equal compute"


@dataclass(frozen=True)
class Panel:
    """One panel of a figure of regret.

    Attributes:
      title: above the panel.
      label: of the vertical axis.
      curves: one per method; those without values are not drawn.
      in_flops: whether values are FLOPs, else sums of errors.
    """

    title: str
    label: str
    curves: Sequence[MethodRegret]
    in_flops: bool = False

    @property
    def drawable(self) -> bool:
        """Whether any method has a curve."""
        return any(curve.curve for curve in self.curves)


@dataclass(frozen=True)
class _Curves:
    """Curves of every method but indep; those in error by part of the stream.

    Attributes:
      same_budget: regret against indep with the same budget.
      equal_compute: regret against indep at equal compute. A curve that is the same as that of
        `same_budget` is empty, and a part of the stream without any other curve is absent.
      flops: training FLOPs minus indep's.
      unmatched: why a run has no indep run at equal compute, or a curve is shorter.
    """

    same_budget: Mapping[str, Sequence[MethodRegret]]
    equal_compute: Mapping[str, Sequence[MethodRegret]]
    flops: Sequence[MethodRegret]
    unmatched: Sequence[str]

    @property
    def extra_flops(self) -> list[list[float]]:
        """Training FLOPs minus indep's after each task, by method."""
        return [[value.mean for value in method.curve] for method in self.flops]

    def make_panels(self) -> dict[str, list[Panel]]:
        """Returns the panels of each figure that has a curve, by the figure's name; FLOPs are drawn
        if any differ from indep's.
        """
        summed = "summed error − indep's"
        regrets = [Panel(title, summed, curves) for title, curves in self.same_budget.items()]
        compute = [
            Panel(title, f"{summed}, equal FLOPs", curves)
            for title, curves in self.equal_compute.items()
        ]
        if any(map(any, self.extra_flops)):
            title, label = "FLOPs, whole stream", "training FLOPs − indep's"
            compute.insert(0, Panel(title, label, self.flops, in_flops=True))
        figures = {"regret": regrets, "regret_and_compute": compute}
        return {
            name: panels
            for name, panels in figures.items()
            if any(panel.drawable for panel in panels)
        }


def html(section: Section) -> Markup | None:
    """Returns the curves and a table of their ends, or why there is none; None for indep alone."""
    curves = section.compute_once(_make_curves)
    if not curves.flops:
        return None
    by_title = [*curves.same_budget.items(), *curves.equal_compute.items()]
    columns = [curves.flops, *(methods for _, methods in by_title)]
    units = ["regret"] * len(curves.same_budget) + ["at equal compute"] * len(curves.equal_compute)
    rows = [
        (
            flops,
            _get_end(flops),
            [(_get_end(methods[place]), methods[place].n) for _, methods in by_title],
        )
        for place, flops in enumerate(curves.flops)
        if any(method.n for methods in columns for method in methods)
    ]
    reasons = [reason for methods in columns for method in methods for reason in method.reasons]
    judged = next(iter(curves.same_budget.values()))
    return render(
        "parts/regret.html",
        number=section.number,
        pictures=svg.render_pictures(figures(section), section.number),
        legend=[
            (section.styles[c.group.label], f"{c.group.label} (n = {c.n})") for c in judged if c.n
        ],
        headings=[(title, unit) for (title, _), unit in zip(by_title, units, strict=True)],
        compute_title=_make_compute_title(curves),
        equal_compute=bool(curves.equal_compute),
        same_flops=any(curves.extra_flops) and not any(map(any, curves.extra_flops)),
        rows=rows,
        reasons=list(dict.fromkeys([*reasons, *curves.unmatched])),
    )


def tables(section: Section) -> dict[str, pd.DataFrame]:
    """Returns `regret`, `regret_in_flops` and `regret_at_equal_compute`: every run's curves."""
    frames = {"regret": analysis_tables.tabulate_regrets(section.runs)}
    names = {run.name for run in section.runs if run.header.learner.casefold() != REFERENCE}
    if names:
        flops = analysis_tables.tabulate_flops_regrets(section.runs)
        matched = analysis_tables.tabulate_regrets(section.runs, find_matched_reference)
        frames["regret_in_flops"] = flops[flops["run"].isin(names)]
        frames["regret_at_equal_compute"] = matched[matched["run"].isin(names)]
    return frames


def figures(section: Section) -> dict[str, svg.Drawing]:
    """Returns `regret` and `regret_and_compute`; without a curve, nothing."""
    curves = section.compute_once(_make_curves)
    titles = {"regret": TITLE, "regret_and_compute": _make_compute_title(curves)}
    lines = f"Line: mean over the n seeds of a method{{}}. Bands: {svg.OVER_SEEDS}. Zero: indep."
    captions = {
        "regret": lines.format(""),
        "regret_and_compute": lines.format(" (regret_in_flops.csv)"),
    }
    return {
        name: svg.Drawing(
            titles[name],
            lambda panels=panels: plot_regret(panels, section.styles),
            captions[name],
        )
        for name, panels in curves.make_panels().items()
    }


def _make_compute_title(curves: _Curves) -> str:
    return f"{_FLOPS_TITLE}, and {_EQUAL_COMPUTE_TITLE}" if curves.equal_compute else _FLOPS_TITLE


def _make_curves(section: Section) -> _Curves:
    others = [group for group in section.groups if group.learner.casefold() != REFERENCE]
    same_budget = _make_curves_by_part(section, others)
    equal_compute = {
        title: [
            replace(curve, curve=()) if _are_same(curve, own) else curve
            for curve, own in zip(methods, same_budget[title], strict=True)
        ]
        for title, methods in _make_curves_by_part(section, others, find_matched_reference).items()
    }
    return _Curves(
        same_budget,
        {title: each for title, each in equal_compute.items() if any(c.curve for c in each)},
        [average_flops_regret(group, section.runs) for group in others],
        [reason for each in equal_compute.values() for curve in each for reason in curve.reasons],
    )


def _make_curves_by_part(
    section: Section, groups: Sequence[SeedGroup], find: Find = find_reference
) -> dict[str, Sequence[MethodRegret]]:
    """Returns curves by panel title, over the judged tasks, and over the whole stream if it has
    more.
    """
    judged, whole = (
        [average_regret(group, section.runs, part, find) for group in groups]
        for part in (True, False)
    )
    panels = {f"Judged tasks (n = {section.judged_tasks})": judged}
    tasks = len(section.tasks)
    return panels | ({f"Whole stream (n = {tasks})": whole} if tasks > section.judged_tasks else {})


def _are_same(curve: MethodRegret, other: MethodRegret) -> bool:
    return [value.mean for value in curve.curve] == [value.mean for value in other.curve]


def _get_end(curve: MethodRegret) -> float:
    return curve.curve[-1].mean if curve.curve else math.nan


def plot_regret(panels: Sequence[Panel], styles: Mapping[str, Style]) -> Figure:
    """Draws regret after each task, one line per method.

    Args:
      panels: from the left; a band of ± 1 std is drawn for two seeds or more.
      styles: by label.
    """
    count = len(panels)
    figure = svg.make_figure(8.4, 3.6)
    grid = figure.subplots(1, count, squeeze=False)
    label_on_the_left = ""
    for axes, panel in zip(grid.flat, panels, strict=True):
        svg.style_axes(axes)
        axes.set_title(panel.title, loc="left", color=palette.ink(), size=10)
        axes.set_xlabel("tasks seen, in stream order")
        if panel.label != label_on_the_left:
            axes.set_ylabel(panel.label)
        label_on_the_left = panel.label
        axes.axhline(0, color=palette.ink(), linewidth=1)
        _draw_curves(axes, panel.curves, styles)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6 if count < 3 else 5))
        axes.set_xlim(left=0)
        if panel.in_flops:
            svg.format_flops_ticks(axes.yaxis)
    return figure


def _draw_curves(axes, curves: Sequence[MethodRegret], styles: Mapping[str, Style]) -> None:
    """Draws every method's curve from (0, 0), with its band.

    A task's place is its place in the longest curve: published results lack two tasks of the
    stream.
    """
    tasks = max((curve.task_ids for curve in curves), key=len, default=())
    places = {task: place for place, task in enumerate(tasks, start=1)}
    for curve in curves:
        if curve.curve:
            known = enumerate(curve.task_ids, start=1)
            _draw_curve(
                axes,
                curve,
                styles[curve.group.label],
                [places.get(task, place) for place, task in known],
            )


def _draw_curve(axes, curve: MethodRegret, style: Style, after: Sequence[int]) -> None:
    # A learner that has seen no task has no regret: every curve begins at (0, 0).
    places = [0, *after]
    means = [0.0, *(value.mean for value in curve.curve)]
    colour = palette.series(style.colour)
    marker = "o" if len(means) == 2 else None
    name, dashes = f"{curve.group.label} (n = {curve.n})", style.dash or (None, None)
    look = {"linewidth": 1.8, "marker": marker, "markersize": 4, "dashes": dashes}
    axes.plot(places, means, color=colour, label=name, **look)
    if curve.n > 1:
        stds = [0.0, *(value.std for value in curve.curve)]
        defined = [s if not math.isnan(s) else 0.0 for s in stds]
        low = [mean - std for mean, std in zip(means, defined, strict=True)]
        high = [mean + std for mean, std in zip(means, defined, strict=True)]
        axes.fill_between(places, low, high, color=colour, alpha=0.18, linewidth=0)
