"""The figures of regret along the stream."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from nevis_stream.analysis.methods import MethodRegret
from nevis_stream.report import palette, svg
from nevis_stream.report.styles import Style


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


def regret_plot(panels: Sequence[Panel], styles: Mapping[str, Style]) -> Figure:
    """Draws regret after each task, one line per method.

    Args:
      panels: from the left; a band of ± 1 std is drawn for two seeds or more.
      styles: by label.
    """
    count = len(panels)
    figure = svg.new_figure(8.4, 3.6)
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
            svg.write_flops(axes.yaxis)
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
