"""Tables for a paper: LaTeX with the rules of the package booktabs, rounded, and laid out so that
they fit on a page.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from nevis_stream.report.latex_columns import Column, printed
from nevis_stream.report.latex_text import breakable, escape

PREAMBLE = r"\usepackage{array,booktabs,longtable,pdflscape}"
_LONG = 45  # lines that still fit on a page
_NARROWEST = 3.0  # em of a column of text; where that is not enough, the table is too wide


@dataclass(frozen=True)
class _Layout:
    """Width of a page's text in points, size of the letters, points of an em, of the space beside a
    column, and the fewest em that a column of text keeps.
    """

    page: float
    size: str
    em: float
    gap: float
    narrowest: float

    def room(self, columns: int) -> float:
        """Em that so many columns share."""
        return (self.page - 2 * self.gap * columns) / self.em


# For the pages of the class article with letters of ten points: its text is 345 points wide and 550
# high.
_UPRIGHT = (_Layout(345, "small", 9.25, 6, 9), _Layout(345, "footnotesize", 8.5, 4, 8))
_SIDEWAYS = (
    _Layout(550, "footnotesize", 8.5, 4, 8),
    _Layout(550, "scriptsize", 8.0, 3, 6),
    _Layout(550, "tiny", 6.8, 2, 0),
)


def latex_table(frame: pd.DataFrame, name: str) -> str:
    """Returns a table for \\input: a float, or a `longtable` where it has more rows than a page,
    sideways where it is too wide.

    What is printed of the columns, and what the caption and notes below tell instead:
    `latex_columns.printed`.

    Args:
      frame: one row or more.
      name: of the table, for its label.
    """
    found = printed(frame)
    layout, columns = _fitted(found.columns)
    title = escape(name.replace("_", " ").capitalize())
    words = ". ".join(
        [title, "; ".join(breakable(text, 10) for text in found.told)] if found.told else [title]
    )
    caption = f"\\caption[{title}]{{{words}.}}\\label{{tab:{name}}}"
    head = " & ".join(column.heading for column in columns) + r" \\"
    shape = "".join(column.layout for column in columns)
    notes = [
        f"{{\\raggedright\\noindent({mark}) {breakable(text, 10)}.\\par}}"
        for text, mark in found.notes.items()
    ]
    lines = len(frame) * max(column.lines for column in columns) + len(notes)
    upright = layout in _UPRIGHT
    begin, end = _frame(caption, shape, head, notes, layout, floats=upright and lines <= _LONG)
    if not upright:
        begin, end = [r"\begin{landscape}", *begin], [*end, r"\end{landscape}"]
    rows = (
        " & ".join(row) + r" \\" for row in zip(*(column.cells for column in columns), strict=True)
    )
    return "\n".join([f"% needs {PREAMBLE}", *begin, *rows, *end]) + "\n"


def latex_document(names: Sequence[str]) -> str:
    """Returns a document of all these tables, which lie beside it."""
    inputs = [f"\\input{{{name}}}\\clearpage" for name in names]
    return (
        "\n".join(
            [r"\documentclass{article}", PREAMBLE, r"\begin{document}", *inputs, r"\end{document}"]
        )
        + "\n"
    )


def _frame(
    caption: str, shape: str, head: str, notes: Sequence[str], layout: _Layout, floats: bool
) -> tuple[list[str], list[str]]:
    """What stands before the rows and behind them."""
    top, middle, bottom = r"\toprule", r"\midrule", r"\bottomrule"
    style = f"\\{layout.size}\\setlength{{\\tabcolsep}}{{{layout.gap}pt}}"
    if floats:
        begin = [
            r"\begin{table}",
            f"\\centering{style}",
            caption,
            f"\\begin{{tabular}}{{{shape}}}",
            top,
            head,
            middle,
        ]
        return begin, [bottom, r"\end{tabular}\par", *notes, r"\end{table}"]
    begin = [
        f"\\begingroup{style}\\setlength{{\\LTcapwidth}}{{\\linewidth}}",
        f"\\begin{{longtable}}{{{shape}}}",
    ]
    begin += [
        caption + r" \\",
        top,
        head,
        middle,
        r"\endfirsthead",
        top,
        head,
        middle,
        r"\endhead",
        bottom,
        r"\endfoot",
    ]
    return begin, [r"\end{longtable}", *notes, r"\par\endgroup"]


def _fitted(columns: Sequence[Column]) -> tuple[_Layout, list[Column]]:
    """The first layout that has room for all columns, and the columns with their text broken for
    it.
    """
    for layout in (*_UPRIGHT, *_SIDEWAYS):
        texts = sorted(column.natural for column in columns if not column.numeric)
        fixed = sum(column.natural for column in columns if column.numeric)
        most = _share(texts, layout.room(len(columns)) - fixed)
        if most >= layout.narrowest:
            break
    return layout, [column.fitted(max(most, _NARROWEST)) for column in columns]


def _share(widths: Sequence[float], room: float) -> float:
    """The widest that a column may be so that all together take the room; infinite where none need
    be narrowed.

    Args:
      widths: of the columns, rising.
      room: for all of them.
    """
    for place, one in enumerate(widths):
        if one * (len(widths) - place) > room:
            return room / (len(widths) - place)
        room -= one
    return math.inf if room >= 0 else 0.0
