"""Names in figures: short, distinguished by their ends, and never cut off at the figure's edge."""

import doctest

import pytest

from nevis_stream.report import names, svg
from nevis_stream.report.names import add_legend, shorten


def test_the_examples_hold():
    assert doctest.testmod(names).failed == 0


@pytest.mark.parametrize("letters", [12, 24, 30, 54])
def test_long_names_keep_both_ends(letters):
    result = shorten("L" * 100 + " · small", letters)
    assert len(result) <= letters and result.startswith("LL") and result.endswith("ll")
    assert shorten("ft_prev\n · small") == "ft_prev · small"


@pytest.mark.parametrize("length", [3, 30, 90])
@pytest.mark.parametrize("count", [1, 2, 11])
def test_legends_lie_inside_the_figure_and_take_no_room_from_it(length, count):
    figure = svg.make_figure(8.4, 3.6)
    axes = figure.subplots()
    figure.canvas.draw()
    before = axes.get_window_extent().height
    for number in range(count):
        axes.plot([], [], label=f"{number:02d}" + "m" * length)
    add_legend(figure)
    figure.canvas.draw()
    box, width = figure.legends[0].get_window_extent(), figure.bbox.width
    assert box.x0 >= 0 and box.x1 <= width and box.y0 >= 0
    assert axes.get_window_extent().height >= 0.93 * before
