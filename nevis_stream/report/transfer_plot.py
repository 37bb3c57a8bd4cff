"""The figure of forward transfer: both learning curves of each repeated data set."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from nevis_stream.analysis.forward_transfer import Curve, Repeat
from nevis_stream.report import palette, svg
from nevis_stream.report.names import escape_mathtext, shorten
from nevis_stream.report.styles import Style

_FIRST = {"linewidth": 0.9, "marker": "o", "markersize": 4, "markerfacecolor": "none"}
_LATER = {"linewidth": 2.2}
Labelled = Sequence[tuple[str, Repeat]]


def transfer_plot(
    repeats: Mapping[str, Labelled],
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
    figure = svg.new_figure(8.4, (3.0 if columns < 3 else 2.5) * rows)
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(repeats) :]:
        axes.set_axis_off()
    with svg.any_script():
        for axes, (title, shown) in zip(grid.flat, repeats.items(), strict=False):
            svg.style_axes(axes)
            axes.set_title(escape_mathtext(shorten(title)), loc="left", color=palette.ink(), size=9)
            for label, repeat in shown:
                _draw(axes, repeat.curves[0], styles[label], _FIRST)
                _draw(axes, repeat.curves[1], styles[label], _LATER | {"label": names[label]})
            axes.set_xlabel("training steps")
        for axes in grid[:, 0]:
            axes.set_ylabel("dev accuracy")
    return figure


def _draw(axes, curve: Curve, style: Style, look: Mapping) -> None:
    if not curve:
        return
    steps, errors = zip(*sorted(curve), strict=True)
    accuracy = [1 - error for error in errors]
    line = axes.plot(steps, accuracy, color=palette.series(style.colour), markevery=[-1], **look)[0]
    if style.dash:
        line.set_dashes(style.dash)
