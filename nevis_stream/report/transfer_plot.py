"""The figure of forward transfer: both learning curves of each repeated data set."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from nevis_stream.analysis.forward_transfer import Curve, Repeat
from nevis_stream.report import palette, svg
from nevis_stream.report.names import legend_below, plain, sample_line, shortened
from nevis_stream.report.styles import Style

_FIRST = {"linewidth": 0.9, "marker": "o", "markersize": 4, "markerfacecolor": "none"}
_LATER = {"linewidth": 2.2}
Labelled = Sequence[tuple[str, Repeat]]


def transfer_plot(
    repeats: Mapping[str, Labelled],
    styles: Mapping[str, Style],
    wide: bool,
    legend: Sequence[tuple[Style, str]] = (),
) -> Figure:
    """Draws one panel a repeat: dev accuracy against steps, thin to a ring at the first meeting,
    thick at the later one.

    Args:
      repeats: panel title: (method's label, repeat) of each run.
      styles: by label; colour and dashes are the method's.
      wide: three panels a row for a screen, else one.
      legend: style and text of each method, for a figure in a file of its own; the page has a
        legend.
    """
    columns = min(3, len(repeats)) if wide else 1
    rows = -(-len(repeats) // columns)
    width = max(2.8 * columns, 4.2) if wide else 4.2
    figure = svg.new_figure(width, 2.5 * rows)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(repeats) :]:
        axes.set_axis_off()
    with svg.any_script():
        for axes, (title, shown) in zip(grid.flat, repeats.items(), strict=False):
            svg.style_axes(axes)
            axes.set_title(plain(shortened(title)), loc="left", color=palette.ink(), size=9)
            for label, repeat in shown:
                for curve, look in zip(repeat.curves, (_FIRST, _LATER), strict=True):
                    _draw(axes, curve, styles[label], look)
            axes.set_xlabel("training steps")
        for axes in grid[:, 0]:
            axes.set_ylabel("dev accuracy")
    if legend:
        legend_below(figure, {text: sample_line(style) for style, text in legend})
    return figure


def _draw(axes, curve: Curve, style: Style, look: Mapping) -> None:
    if not curve:
        return
    steps, errors = zip(*sorted(curve), strict=True)
    accuracy = [1 - error for error in errors]
    line = axes.plot(steps, accuracy, color=palette.series(style.colour), markevery=[-1], **look)[0]
    if style.dash:
        line.set_dashes(style.dash)
