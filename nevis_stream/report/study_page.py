"""A self-contained page of a study: chapters with figures, notes and sortable tables, and each
table as a csv file next to it."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.axes import Axes

from nevis_stream.report import palette, svg
from nevis_stream.report.styles import list_series_styles
from nevis_stream.report.templates import read_resource, render_page
from nevis_stream.storage import write_file
from nevis_stream.storage.tables import encode_csv

PAGE = "report.html"


@dataclass(frozen=True)
class Line:
    """A named series of a figure.

    Attributes:
      name: in the legend.
      x, y: float64[n].
      band: lower and upper ends float64[n] each, or None.
      marked: whether each point has a marker.
      joined: whether the points are joined by a line.
    """

    name: str
    x: np.ndarray
    y: np.ndarray
    band: tuple[np.ndarray, np.ndarray] | None = None
    marked: bool = False
    joined: bool = True


@dataclass(frozen=True)
class Picture:
    """A figure with a legend.

    Attributes:
      name: unique in the page; part of ids.
      title: what a screen reader says.
      lines: at most 7 series.
      x_label, y_label: of the axes.
      logarithmic: which axes are: "", "x", "y" or "xy".
      finish: called with the axes at the end, for example to add a reference line.
    """

    name: str
    title: str
    lines: Sequence[Line]
    x_label: str
    y_label: str
    logarithmic: str = ""
    finish: Callable[[Axes], object] | None = None

    @property
    def svg(self) -> Markup:
        """The figure."""
        drawing = svg.Drawing(self.title, self._draw, "")
        return svg.render_pictures({self.name: drawing})[self.name]

    @property
    def legend(self) -> Markup:
        """The legend, with a line or a mark in the style of each series."""
        items = (
            Markup("<li>{} {}</li>").format(style.swatch if line.joined else style.mark, line.name)
            for line, style in zip(self.lines, list_series_styles(len(self.lines)), strict=True)
        )
        return Markup('<ul class="legend">{}</ul>').format(Markup("").join(items))

    def _draw(self):
        figure, axes = svg.make_plot(8.8, 3.6)
        for line, style in zip(self.lines, list_series_styles(len(self.lines)), strict=True):
            colour = palette.series(style.colour)
            look = {"color": colour, "linewidth": 1.8 if line.joined else 0}
            look |= {"marker": style.marker, "markersize": 4.5} if line.marked else {}
            if style.dash and line.joined:
                look["dashes"] = style.dash
            axes.plot(line.x, line.y, **look)
            if line.band is not None:
                axes.fill_between(line.x, *line.band, color=colour, alpha=0.15, linewidth=0)
        for axis in self.logarithmic:
            getattr(axes, f"set_{axis}scale")("log")
        if self.finish:
            self.finish(axes)
        axes.set_xlabel(self.x_label)
        axes.set_ylabel(self.y_label)
        return figure


@dataclass(frozen=True)
class StudyChapter:
    """A part of the page.

    Attributes:
      title: heading.
      note: how to read the figures and the table.
      pictures: its figures.
      table: shown and written to NAME.csv, or None.
      name: of the csv file; default: made from the title.
    """

    title: str
    note: str = ""
    pictures: Sequence[Picture] = ()
    table: pd.DataFrame | None = field(default=None, compare=False)
    name: str = ""

    @property
    def anchor(self) -> str:
        """Where the navigation leads."""
        return self.name or re.sub(r"\W+", "-", self.title.partition(":")[0].lower()).strip("-")

    @property
    def columns(self) -> list[str]:
        """Headings of the table."""
        return [] if self.table is None else [_make_words(column) for column in self.table]

    @property
    def numbers(self) -> list[str]:
        """Headings of columns of numbers."""
        if self.table is None:
            return []
        return [_make_words(name) for name in self.table if self.table[name].dtype.kind in "iuf"]

    @property
    def rows(self) -> list[list[tuple[str, float | None]]]:
        """Each cell's text, and its value if it is a number."""
        if self.table is None:
            return []
        return [
            [_format_cell(value) for value in row] for row in self.table.itertuples(index=False)
        ]


def _make_words(column: str) -> str:
    return column.replace("_", " ")


def _format_cell(value) -> tuple[str, float | None]:
    if value is None:
        return "not stated", None
    if isinstance(value, bool | np.bool_):
        return ("yes" if value else "no"), None
    if isinstance(value, int | np.integer):
        return f"{value:,}", float(value)
    if isinstance(value, float | np.floating):
        return ("–" if math.isnan(value) else f"{value:.4g}"), float(value)
    return str(value), None


def write_study(out: Path, title: str, introduction: str, chapters: Sequence[StudyChapter]) -> Path:
    """Writes OUT/report.html and a csv file of each table; returns the page's path."""
    files = []
    for chapter in chapters:
        if chapter.table is not None:
            files.append(f"{chapter.anchor}.csv")
            write_file(out / files[-1], encode_csv(chapter.table))
    page = render_page(
        "study_page.html",
        read_resource("sort.js"),
        title=title,
        introduction=introduction,
        chapters=chapters,
        files=files,
    )
    write_file(out / PAGE, page.encode())
    return out / PAGE
