"""Names of methods inside figures, short enough to fit; and the legend that a figure has in a file
of its own.
"""

from collections.abc import Mapping
from typing import Any

from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D

from nevis_stream.report import palette, svg
from nevis_stream.report.styles import Style

_ROW_HEIGHT = 0.19  # inches, of a legend
_MOST_LETTERS = 54  # of a name in a legend


def shorten(name: str, letters: int = 30) -> str:
    """Returns a name of at most `letters` letters, without the middle of a longer one: its end
    names budget and settings.

    >>> shorten("pt_ft (stand-in: pre-trained on omniglot) · small", 24)
    'pt_ft (stand-in… · small'
    """
    name = " ".join(name.split())
    if len(name) <= letters:
        return name
    end = letters * 2 // 5 - 1
    return f"{name[: letters - end - 1].rstrip()}…{name[-end:]}"


def to_letters(number: int) -> str:
    """Returns a, b, …, z, aa, ab, … for 0, 1, …, by which files of figures are numbered.

    >>> to_letters(0), to_letters(25), to_letters(26), to_letters(702)
    ('a', 'z', 'aa', 'aaa')
    """
    return chr(97 + number) if number < 26 else to_letters(number // 26 - 1) + chr(97 + number % 26)


def make_line(style: Style) -> Line2D:
    """Returns a line in the style of a method, for a legend."""
    return Line2D([], [], color=palette.series(style.colour), dashes=style.dash or (None, None))


def add_legend(figure: Figure) -> None:
    """Names the labelled artists of a figure below it, in as many columns as fit, and makes the
    figure higher by its rows; a figure that has a legend keeps it.
    """
    if figure.legends or any(axes.get_legend() for axes in figure.axes):
        return
    named: dict[str, Artist] = {}
    for axes in figure.axes:
        artists, texts = axes.get_legend_handles_labels()
        named = dict(zip(texts, artists, strict=True)) | named
    if named:
        width, height = figure.get_size_inches()
        figure.set_size_inches(width, height + measure_legend(named, width))
        _draw_legend(figure, named, "outside lower center", _count_columns(named, width))


def add_legend_below(figure: Figure, named: Mapping[str, Artist]) -> None:
    """Adds a legend at the lower edge of a figure without a constrained layout, which leaves
    `measure_legend` for it.
    """
    _draw_legend(figure, named, "lower center", _count_columns(named, figure.get_size_inches()[0]))


def measure_legend(named: Mapping[str, Artist], width: float) -> float:
    """Returns how high a legend is, in inches, on a figure of this width."""
    return _ROW_HEIGHT * -(-len(named) // _count_columns(named, width))


def _count_columns(named: Mapping[str, Artist], width: float) -> int:
    for columns in (4, 3, 2):
        figure = svg.make_figure(width, 1, layout=None)  # only measured
        legend = _draw_legend(figure, named, "lower center", columns)
        if legend.get_window_extent(svg.get_renderer(figure)).width <= figure.bbox.width:
            return columns
    return 1


def _draw_legend(figure: Figure, named: Mapping[str, Artist], place: Any, columns: int) -> Legend:
    with svg.allow_any_script():
        legend = figure.legend(
            list(named.values()),
            [shorten(name, _MOST_LETTERS) for name in named],
            loc=place,
            ncols=columns,
            frameon=False,
            fontsize=8,
            labelcolor=palette.ink(),
        )
    for text in legend.get_texts():
        text.set_parse_math(False)  # a name with two $ is no mathematics
    return legend
