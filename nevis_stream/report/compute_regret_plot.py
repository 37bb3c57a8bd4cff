"""The figure of regret in FLOPs beside regret in error at equal compute."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from nevis_stream.analysis.methods import MethodRegret
from nevis_stream.report import palette, svg
from nevis_stream.report.names import legend_below
from nevis_stream.report.notation import engineering
from nevis_stream.report.regret_plot import draw_curves, lines_by_name
from nevis_stream.report.styles import Style


def compute_regret_plot(
    flops: Sequence[MethodRegret],
    errors: Mapping[str, Sequence[MethodRegret]],
    styles: Mapping[str, Style],
    wide: bool,
    legend: bool = False,
) -> Figure:
    """Draws a panel of cumulative FLOPs minus Indep's, and panels of regret at equal compute, one
    line a method.

    Args:
      flops: the curves in FLOPs.
      errors: the curves in error by panel title.
      styles: by label.
      wide: panels side by side for a screen, else below each other for a phone.
      legend: name the methods inside the figure, which stands alone; the page has a legend of its
        own.
    """
    panels = {"FLOPs, whole stream": flops, **errors}
    figure = svg.new_figure(*((8.4, 3.6) if wide else (4.2, 3.2 * len(panels))))
    grid = figure.subplots(*((1, len(panels)) if wide else (len(panels), 1)), squeeze=False)
    for place, (axes, (title, curves)) in enumerate(zip(grid.flat, panels.items(), strict=True)):
        svg.style_axes(axes)
        axes.set_title(title, loc="left", color=palette.ink(), size=10)
        axes.set_xlabel("tasks seen, in stream order")
        if place < 2 or not wide:
            axes.set_ylabel(
                "error − Indep's, equal compute" if place else "FLOP − Indep's, same budget"
            )
        axes.axhline(0, color=palette.ink(), linewidth=1)
        draw_curves(axes, curves, styles)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
        axes.set_xlim(left=0)
    if not any(value.mean for curve in flops for value in curve.curve):
        grid.flat[0].set_ylim(-1, 1)  # whole FLOPs, where all cost the same
    grid.flat[0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: engineering(value)))
    if legend:
        legend_below(figure, lines_by_name(figure))
    return figure
