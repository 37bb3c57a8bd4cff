"""Which classes the labels in a file mean: ids, or names. What may mean two things is an error with
both meanings.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nevis_stream.datasets.dataset import check_id, count_classes, list_names
from nevis_stream.errors import BadInput
from nevis_stream.storage.tables import (
    normalise_name,
    note_similar_names,
    parse_whole,
    read_text,
    shorten,
)
from nevis_stream.vocabulary import TASK_KINDS

SINGLE_LABEL, MULTI_LABEL = TASK_KINDS
# what pandas takes for a missing value, and so may write for one
_MISSING = frozenset(
    ("nan", "NaN", "NAN", "None", "NULL", "null", "NA", "N/A", "n/a", "<NA>", "#N/A")
)
_MARKS = "|;,+&/"  # by which publishers join the labels of an image
_DECIMAL = r"[+-]?([0-9]+[.,]?[0-9]*|[.,][0-9]+)(e[+-]?[0-9]+)?"


@dataclass(frozen=True)
class CellLabels:
    """The labels of a csv's rows.

    Attributes:
      ids: the class ids of each row: one, or for multi-label data any number.
      kind: "single_label" or "multi_label".
      num_classes: number of classes.
      class_names: in the order of the ids; empty where classes have none.
      notes: sentences on names that may be the same class.
    """

    ids: list[list[int]]
    kind: str
    num_classes: int
    class_names: list[str]
    notes: list[str]


def read_cells(
    cells: Sequence[tuple[str, str]],
    origin: str,
    kind: str = "",
    names: Sequence[str] = (),
    num_classes: int | None = None,
) -> CellLabels:
    """Returns the labels that cells of text mean.

    Whole numbers are class ids, several of them with blanks between them the labels of a
    multi-label image. Anything else is the name of a class, as it is written (in NFC); `01` beside
    `1` too.

    Args:
      cells: the place of each for messages, and its text.
      origin: named in messages about all of them.
      kind: "single_label", "multi_label", or "": as the cells say.
      names: of the classes in the order of their ids, where they are declared.
      num_classes: the number of classes, where it is declared.

    Raises:
      BadInput: an empty cell, unless the kind is multi-label; one that says that its label is
        missing; ids and names in one column; a number that is no class id; a name that is not
        declared; ids with gaps.
    """
    if names and num_classes not in (None, len(names)):
        raise BadInput(
            f"{origin}: has the names of {len(names)} classes, but the number of classes is"
            f" {num_classes}."
        )
    cells = [(place, normalise_name(text)) for place, text in cells]
    for place, text in cells:
        if not text.strip() and kind != MULTI_LABEL:
            raise BadInput(
                f"{place}: has no label. Fill in the cell or delete the row; or, if images without"
                " a label are meant, say so: kind=multi_label (a column of a stream csv, a flag of"
                " data import)."
            )
        for word in text.split() if kind == MULTI_LABEL else [text.strip()]:
            if word in _MISSING and word not in names:
                raise BadInput(
                    f"{place}: label {word!r} is what programs write for a missing value. Fill in"
                    " the cell or delete the row; or, if there is a class of that name, declare the"
                    " classes in classes.txt."
                )
    words = {word for _, text in cells for word in text.split()}
    numbers = {word: number for word in words if (number := parse_whole(word)) is not None}
    if len(numbers) == len(words) == len(set(numbers.values())):
        _refuse_ids_as_names(cells, names)
        return _by_id(cells, origin, kind, names, num_classes)
    if not names and kind != SINGLE_LABEL:
        _refuse_joined(cells)
    return _by_name(cells, origin, kind or SINGLE_LABEL, names, num_classes)


def _refuse_ids_as_names(cells: Sequence[tuple[str, str]], names: Sequence[str]) -> None:
    """Refuses class ids if they are names of other classes too."""
    position = {name: number for number, name in enumerate(names)}
    for place, text in cells:
        for word in text.split():
            if position.get(word, parse_whole(word)) != parse_whole(word):
                raise BadInput(
                    f"{place}: label {word!r} may be the class of that name, or the one with that"
                    " number, which counts from 0. List the classes in the order of their numbers,"
                    " from 0, or call them otherwise here and there."
                )


def _refuse_joined(cells: Sequence[tuple[str, str]]) -> None:
    """Refuses `cat|dog` beside `cat` and `dog`: a class of its own, or two labels."""
    first: dict[str, str] = {}
    for place, text in cells:
        first.setdefault(text.strip(), place)
    for text, place in first.items():
        for mark in _MARKS:
            pieces = [piece.strip() for piece in text.split(mark)]
            if len(pieces) > 1 and all(piece in first for piece in pieces):
                raise BadInput(
                    f"{place}: label {shorten(text)!r} may be a class of that name, or the labels"
                    f" {list_names(pieces)} of one image. For the first, say kind=single_label (a"
                    " column of a stream csv, a flag of data import); for the second, put blanks"
                    " between labels, none within one, and say kind=multi_label."
                )


def _by_id(cells, origin, kind, names, num_classes) -> CellLabels:
    ids = [[parse_whole(word) or 0 for word in text.split()] for _, text in cells]
    kind = kind or (MULTI_LABEL if any(len(each) > 1 for each in ids) else SINGLE_LABEL)
    declared = num_classes or len(names) or None
    for (place, _), each in zip(cells, ids, strict=True):
        if kind == SINGLE_LABEL and len(each) != 1:
            raise BadInput(f"{place}: {len(each)} labels in a single_label task.")
        for number in each:
            check_id(number, declared, place)
    found = {number for each in ids for number in each}
    return CellLabels(ids, kind, count_classes(found, declared, origin), list(names), [])


def _by_name(cells, origin, kind, names, num_classes) -> CellLabels:
    single = kind == SINGLE_LABEL
    labels = [[text] if single else text.split() for _, text in cells]
    first = {}
    for (place, _), each in zip(cells, labels, strict=True):
        for name in each:
            first.setdefault(name, place)
    if names:
        for name, place in first.items():
            if name not in names:
                raise BadInput(
                    f"{place}: label {shorten(name)!r} is not one of the {len(names)} classes"
                    f" ({list_names(names)})."
                )
    else:
        _refuse_numbers(first)
        names = sorted(first)
        if len(names) < 2 or num_classes not in (None, len(names)):
            raise BadInput(
                f"{origin}: has labels of {len(names)} classes ({list_names(names)}), but"
                f" {num_classes or 'two or more'} are needed."
            )
    position = {name: number for number, name in enumerate(names)}
    ids = [[position[name] for name in each] for each in labels]
    return CellLabels(ids, kind, len(names), list(names), note_similar_names(names))


def _refuse_numbers(first: dict[str, str]) -> None:
    """Refuses numbers among names, unless all are whole: then they differ in leading zeros only.

    Args:
      first: the place of each label.
    """
    numbers = [
        name for name in first if all(parse_whole(word) is not None for word in name.split())
    ]
    others = [name for name in first if name not in numbers]
    decimal = next((n for n in others if re.fullmatch(_DECIMAL, n.strip().lower())), None)
    if decimal is not None:
        raise BadInput(
            f"{first[decimal]}: label {shorten(decimal)!r} is a number, but not a whole one. Class"
            f" ids are whole numbers from 0; write 1 and not 1.0{' or 1,0' * (',' in decimal)}."
        )
    if numbers and others:
        raise BadInput(
            f"{first[others[0]]}: label {shorten(others[0])!r} is a name, but"
            f" {shorten(numbers[0])!r} in {shorten_place(first[numbers[0]])} is a number. Write"
            " class ids (whole numbers from 0) or names, not both; put blanks between the ids of an"
            " image with several, and state kind=multi_label for several names."
        )


def read_arrays(
    labels: Mapping[str, np.ndarray], origin: str, kind: str = ""
) -> tuple[str, dict[str, np.ndarray]]:
    """Returns the kind of labels in arrays, and the labels in the shape of that kind.

    Args:
      labels: by part: class ids [n] or [n, 1], or 0 and 1 [n, classes].
      origin: named in messages.
      kind: "single_label", "multi_label", or "": as the arrays say.

    Returns:
      The kind, and by part [n] or, for multi label, [n, classes].

    Raises:
      BadInput: a matrix in which every row has exactly one 1, and no kind: these may be classes, or
        labels of which every image happens to have one.
    """
    matrix = all(array.ndim == 2 and array.shape[1] > 1 for array in labels.values())
    if kind != MULTI_LABEL and all(a.ndim == 2 and a.shape[1] == 1 for a in labels.values()):
        return kind or SINGLE_LABEL, {part: array[:, 0] for part, array in labels.items()}
    if not matrix or kind == MULTI_LABEL:
        return kind or SINGLE_LABEL, dict(labels)
    one_each = all(
        np.isin(array, (0, 1)).all() and (array.sum(axis=1) == 1).all() for array in labels.values()
    )
    if kind == SINGLE_LABEL and one_each:
        return kind, {part: array.argmax(axis=1) for part, array in labels.items()}
    if one_each and any(len(array) for array in labels.values()):
        raise BadInput(
            f"{origin}: every row of its labels has exactly one 1: each image may be of one class,"
            " or have several labels of which it happens to have one. Say which:"
            " kind=single_label, or kind=multi_label (a column of a stream csv, a flag of data"
            " import)."
        )
    return kind or MULTI_LABEL, dict(labels)


def read_names(content: bytes, name: str) -> list[str]:
    """Returns the names of classes from a text with one on each line.

    Args:
      content: of the file.
      name: what a message calls it.

    Raises:
      BadInput: an empty line between names, or a name that is there twice.
    """
    lines = normalise_name(read_text(content, name)).splitlines()
    while lines and not lines[-1].strip():
        lines.pop()
    check_names(lines, name)
    return lines


def check_names(names: Sequence[str], origin: str) -> None:
    """Checks the names of classes.

    Args:
      names: in the order of the class ids.
      origin: of the names, for messages.

    Raises:
      BadInput: an empty name, or one that is there twice; the message counts lines from 1.
    """
    first: dict[str, int] = {}
    for number, name in enumerate(names, start=1):
        if not name.strip():
            raise BadInput(f"{origin}, line {number}: is empty. Give every class a name.")
        if (before := first.setdefault(name, number)) != number:
            raise BadInput(
                f"{origin}, line {number}: {shorten(name)!r} is in line {before} already. Give"
                " every class a name of its own."
            )


def shorten_place(place: str) -> str:
    """Returns the last piece of a place: "line 3" of "labels.csv, line 3"."""
    return place.rpartition(", ")[2]
