"""Forward transfer on repeated data sets, with the learning curves of both meetings."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from nevis_stream.analysis.bootstrap import Interval
from nevis_stream.analysis.forward_transfer import (
    PUBLISHED,
    Curve,
    Repeat,
    average_transfer,
    measure_forward_transfer,
)
from nevis_stream.analysis.seeds import SeedGroup, Spread, spread
from nevis_stream.errors import plural
from nevis_stream.report import palette, svg
from nevis_stream.report.names import shorten
from nevis_stream.report.section import Section
from nevis_stream.report.styles import Style
from nevis_stream.report.templates import render

TITLE = "Forward transfer: learning a repeated data set"
_FIRST = {"linewidth": 0.9, "marker": "o", "markersize": 4, "markerfacecolor": "none"}
_LATER = {"linewidth": 2.2}
LabelledRepeats = Sequence[tuple[str, Repeat]]


@dataclass(frozen=True)
class RepeatedLearning:
    """How fast a method learns data sets that the stream repeats.

    Attributes:
      group: the method.
      runs: the repeats of each finished run.
      values: of each repeat, its spread over the runs.
      mean: over the repeats, with its interval.
    """

    group: SeedGroup
    runs: Sequence[Sequence[Repeat]]
    values: Sequence[Spread]
    mean: Interval

    @property
    def name(self) -> str:
        """The method with its number of runs, for a legend."""
        return f"{self.group.label} (n = {plural(len(self.runs), 'run')})"


def html(section: Section) -> Markup | None:
    """Returns the curves and the table of FWT; None where no run met a data set twice."""
    methods = section.compute_once(_measure_methods)
    if not methods:
        return None
    return render(
        "parts/forward_transfer.html",
        number=section.number,
        picture=svg.render_pictures(figures(section), section.number)["forward_transfer"],
        legend=[(section.styles[method.group.label], method.name) for method in methods],
        methods=methods,
        repeats=list(_group_repeats(methods)),
        reasons=[
            f"{m.group.label}, {r.tasks[1]}: {r.reason}"
            for m in methods
            for run in m.runs
            for r in run
            if r.reason
        ],
        published=PUBLISHED,
        fwt=_format_transfer,
    )


def tables(section: Section) -> dict[str, pd.DataFrame]:
    """Returns `forward_transfer`: one row per run and repeat, with both areas."""
    rows = [
        {
            "label": method.group.label,
            "seed": run.header.seed,
            "run": run.name,
            "dataset_id": repeat.dataset_id,
            "first": repeat.tasks[0],
            "later": repeat.tasks[1],
            "auc_first": repeat.areas[0],
            "auc_later": repeat.areas[1],
            "fwt": repeat.value,
            "reason": repeat.reason,
        }
        for method in section.compute_once(_measure_methods)
        for run, repeats in zip(_list_finished(method.group), method.runs, strict=True)
        for repeat in repeats
    ]
    return {"forward_transfer": pd.DataFrame(rows)}


def figures(section: Section) -> dict[str, svg.Drawing]:
    """Returns `forward_transfer`; nothing where no run met a data set twice."""
    methods = section.compute_once(_measure_methods)
    panels, names = _group_repeats(methods), {method.group.label: method.name for method in methods}
    title = "Dev accuracy against steps when a data set is met first and when it is met again"
    caption = (
        "Each pair of lines is one run, n per method; no bands. Dev accuracy of the chosen trial."
    )
    drawing = svg.Drawing(title, lambda: plot_transfer(panels, section.styles, names), caption)
    return {"forward_transfer": drawing} if methods else {}


def _list_finished(group: SeedGroup) -> list:
    return [run for run in group.runs if run.ledger.complete]


def _measure_methods(section: Section) -> list[RepeatedLearning]:
    methods = []
    for group in section.groups:
        runs = [measure_forward_transfer(run.ledger) for run in _list_finished(group)]
        if any(any(map(len, repeat.curves)) for run in runs for repeat in run):
            values = np.array([[repeat.value for repeat in run] for run in runs]).T
            methods.append(
                RepeatedLearning(
                    group, runs, [spread(row) for row in values.tolist()], average_transfer(values)
                )
            )
    return methods


def _group_repeats(methods: Sequence[RepeatedLearning]) -> dict[str, list[tuple[str, Repeat]]]:
    panels: dict[str, list[tuple[str, Repeat]]] = {}
    for method in methods:
        for run in method.runs:
            for repeat in run:
                panels.setdefault(repeat.tasks[1], []).append((method.group.label, repeat))
    return panels


def _format_transfer(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:+.3f}".replace("-", "−")


def plot_transfer(
    repeats: Mapping[str, LabelledRepeats],
    styles: Mapping[str, Style],
    names: Mapping[str, str],
) -> Figure:
    """Draws one panel per repeat: dev accuracy against steps, a thin line that ends in a ring for
    the first time, a thick line for the later one; at most three panels in a row.

    Args:
      repeats: panel title: (method's label, repeat) of each run.
      styles: by label; colour and dashes are the method's.
      names: how a legend names a method, by label.
    """
    columns = min(3, len(repeats))
    rows = -(-len(repeats) // columns)
    figure = svg.make_figure(8.4, (3.0 if columns < 3 else 2.5) * rows)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(repeats) :]:
        axes.set_axis_off()
    with svg.allow_any_script():
        for axes, (title, shown) in zip(grid.flat, repeats.items(), strict=False):
            svg.style_axes(axes)
            look = {"loc": "left", "color": palette.ink(), "size": 9, "parse_math": False}
            axes.set_title(shorten(title), **look)
            for label, repeat in shown:
                _draw_curve(axes, repeat.curves[0], styles[label], _FIRST)
                _draw_curve(axes, repeat.curves[1], styles[label], _LATER | {"label": names[label]})
            axes.set_xlabel("training steps")
        for axes in grid[:, 0]:
            axes.set_ylabel("dev accuracy")
    return figure


def _draw_curve(axes, curve: Curve, style: Style, look: Mapping) -> None:
    if not curve:
        return
    steps, errors = zip(*sorted(curve), strict=True)
    accuracy = [1 - error for error in errors]
    line = axes.plot(steps, accuracy, color=palette.series(style.colour), markevery=[-1], **look)[0]
    if style.dash:
        line.set_dashes(style.dash)
