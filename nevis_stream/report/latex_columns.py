"""A table's columns as LaTeX prints them, and what is told beside the table instead."""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real

import pandas as pd

from nevis_stream.analysis.stand_ins import notes, short_names
from nevis_stream.report.latex_text import (
    breakable,
    cell,
    escape,
    mean_and_std,
    stacked,
    undefined,
    width,
)

_REMARKS = ("reason", "notes", "remarks")
_NAMED_BY_LABEL = ("learner", "budget")
_LONG = 12.0  # em; a longer remark stands below the table


@dataclass(frozen=True)
class Column:
    """A printed column; `wrapped` is its width in em where its text is broken, None where it is as
    wide as its cells.
    """

    name: str
    cells: Sequence[str]
    numeric: bool
    wrapped: float | None = None

    @cached_property
    def texts(self) -> set[str]:
        """The distinct cells."""
        return set(self.cells)

    @cached_property
    def natural(self) -> float:
        """Em that its cells take, or the longest word of its heading."""
        return max(map(width, [*self.texts, *self._words]))

    @property
    def heading(self) -> str:
        """Its name, in as many lines as its width asks for."""
        lines = stacked(self._words, self.natural if self.wrapped is None else self.wrapped)
        if len(lines) == 1:
            return lines[0]
        return (
            f"\\begin{{tabular}}[b]{{@{{}}{'r' if self.numeric else 'l'}@{{}}}}"
            + r"\\".join(lines)
            + r"\end{tabular}"
        )

    @property
    def layout(self) -> str:
        """How it is set, in the argument of `tabular`."""
        if self.wrapped is None:
            return "r" if self.numeric else "l"
        return f">{{\\raggedright\\arraybackslash}}p{{{self.wrapped:.1f}em}}"

    @property
    def lines(self) -> int:
        """Of its highest cell, about."""
        return 1 if self.wrapped is None else math.ceil(1.2 * self.natural / self.wrapped)

    def fitted(self, most: float) -> "Column":
        """Returns the column with its text broken where it would be wider than so many em."""
        if self.numeric or self.natural <= most:
            return self
        broken = {text: breakable(text, most) for text in self.texts}
        wide = replace(self, cells=[broken[text] for text in self.cells], wrapped=most)
        wide.__dict__["natural"] = self.natural
        return wide

    @property
    def _words(self) -> list[str]:
        return [escape(word) for word in self.name.split()] or [""]


@dataclass(frozen=True)
class Printed:
    """A frame for print.

    Attributes:
      columns: what varies.
      told: what the caption says of the other columns.
      notes: mark of each remark that stands below the table, by its text.
    """

    columns: list[Column] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)


def printed(frame: pd.DataFrame) -> Printed:
    """Returns a frame's columns for print, names of stand-ins short.

    Columns with one value in all rows are told in the caption, columns without any value are left
    out; `x` and `x_std` become one column; `learner` and `budget` are left out beside `label`,
    which names both; paths lose the directory that all share; long remarks become marks of notes.
    """
    found = Printed()
    frame, marks = _with_short_names(frame)
    merged = {f"{name}_std" for name in frame} | set(_NAMED_BY_LABEL if "label" in frame else ())
    for name in frame:
        if name in merged:
            continue
        values, shared = _below_one_directory(frame[name].tolist())
        column = _column(
            str(name), values, frame[f"{name}_std"].tolist() if f"{name}_std" in frame else None
        )
        if shared:
            found.told.append(f"{escape(column.name)}: below {escape(shared)}")
        if column.texts == {""}:
            continue
        if len(frame) > 1 and len(column.texts) == 1:
            found.told.append(f"{escape(column.name)}: {column.cells[0]}")
        else:
            found.columns.append(_with_notes(column, found.notes) if name in _REMARKS else column)
    found.told.extend(map(escape, marks))
    if not found.columns:
        found.columns.append(_column("", [""] * len(frame)))
    return found


def _column(
    name: str, values: Sequence[object], deviations: Sequence[object] | None = None
) -> Column:
    """Prints each distinct value once: a long table has few."""
    keys = list(zip(map(type, values), values, deviations or [None] * len(values), strict=True))
    known = {key: mean_and_std(*key[1:]) if deviations else cell(key[1]) for key in set(keys)}
    numeric = all(
        undefined(value) or (isinstance(value, Real) and not isinstance(value, bool))
        for _, value, _ in known
    )
    return Column(name.replace("_", " "), [known[key] for key in keys], numeric)


def _with_short_names(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The frame with marks in the place of what stands in for what, and what they say."""
    columns = [column for column in ("learner", "learner_a", "learner_b") if column in frame]
    names = short_names(
        {value for column in columns for value in frame[column] if isinstance(value, str)}
    )
    frame = frame.assign(
        **{column: [names.get(value, value) for value in frame[column]] for column in columns}
    )
    return frame, notes(sorted(name for name, one in names.items() if name != one))


def _with_notes(column: Column, notes: dict[str, str]) -> Column:
    """The column with marks in the place of long remarks, which `notes` gets."""
    marks = {text: text for text in column.texts}
    for text in dict.fromkeys(column.cells):
        if width(text) > _LONG:
            marks[text] = f"({notes.setdefault(text, str(len(notes) + 1))})"
    return replace(column, cells=[marks[text] for text in column.cells])


def _below_one_directory(values: list) -> tuple[list, str]:
    """The values without the directory that all of them lie in, and that directory; empty where
    there is none.
    """
    paths = {value for value in values if isinstance(value, str) and value}
    if (
        len(paths) < 2
        or not all("/" in path for path in paths)
        or len({path[0] == "/" for path in paths}) > 1
    ):
        return values, ""
    shared = os.path.commonpath(paths)
    if shared in ("", "/") or shared in paths:
        return values, ""
    return [
        value[len(shared) + 1 :] if isinstance(value, str) and value else value for value in values
    ], shared
