"""Which classes labels mean: ids from 0 without gaps, or names. What may mean two things is an
error with both meanings.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nevis_stream.errors import BadInput
from nevis_stream.storage.tables import nfc, parse_whole, read_text, shorten, similar_names
from nevis_stream.vocabulary import MOST_CLASSES, TASK_KINDS

SINGLE_LABEL, MULTI_LABEL = TASK_KINDS
# what pandas takes for a missing value, and so may write for one
_UNKNOWN = frozenset(
    ("nan", "NaN", "NAN", "None", "NULL", "null", "NA", "N/A", "n/a", "<NA>", "#N/A")
)
_MARKS = "|;,+&/"  # by which publishers join the labels of an image
_SHOWN = 10  # ranges of ids, or names, in a message
_DECIMAL = r"[+-]?([0-9]+[.,]?[0-9]*|[.,][0-9]+)(e[+-]?[0-9]+)?"
DECLARE = (
    "num_classes (a column of a stream csv, a flag of data import) or names (classes.txt in a zip,"
    " an array `classes` in an npz)"
)


class IdsWithGaps(BadInput):
    """Some class ids have no sample, and nothing says that there are such classes."""


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
        missing; ids and names in one column; a number
        that is no class id; a name that is not declared; ids with gaps.
    """
    if names and num_classes not in (None, len(names)):
        raise BadInput(
            f"{origin}: has the names of {len(names)} classes, but the number of classes is"
            f" {num_classes}."
        )
    cells = [(place, nfc(text)) for place, text in cells]
    for place, text in cells:
        if not text.strip() and kind != MULTI_LABEL:
            raise BadInput(
                f"{place}: has no label. Fill in the cell or delete the row; or, if images without"
                " a label are meant, say so: kind=multi_label (a column of a stream csv, a flag of"
                " data import)."
            )
        for word in text.split() if kind == MULTI_LABEL else [text.strip()]:
            if word in _UNKNOWN and word not in names:
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
                    f" {_list(pieces)} of one image. For the first, say kind=single_label (a"
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
                    f" ({_list(names)})."
                )
    else:
        _refuse_numbers(first)
        names = sorted(first)
        if len(names) < 2 or num_classes not in (None, len(names)):
            raise BadInput(
                f"{origin}: has labels of {len(names)} classes ({_list(names)}), but"
                f" {num_classes or 'two or more'} are needed."
            )
    position = {name: number for number, name in enumerate(names)}
    ids = [[position[name] for name in each] for each in labels]
    return CellLabels(ids, kind, len(names), list(names), similar_names(names))


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
            f" {shorten(numbers[0])!r} in {last_of_place(first[numbers[0]])} is a number. Write"
            " class ids (whole numbers from 0) or names, not both; put blanks between the ids of an"
            " image with several, and state kind=multi_label for several names."
        )


def check_id(number: int, declared: int | None, place: str) -> None:
    """Checks a class id.

    Args:
      number: the id.
      declared: the number of classes, or None if nothing declares it.
      place: what a message begins with.

    Raises:
      BadInput: it is negative, not one of the declared classes, or too large to be an id.
    """
    if number >= MOST_CLASSES:
        raise BadInput(
            f"{place}: label {shorten(str(number))} is too large for a class id; valid:"
            f" 0..{(declared or MOST_CLASSES) - 1}. Is it a date or the number of a file?"
        )
    if number < 0 or (declared and number >= declared):
        valid = f"0..{declared - 1}" if declared else "whole numbers from 0"
        raise BadInput(f"{place}: label {number} is out of range; valid: {valid}.")


def count_classes(found: Iterable[int], declared: int | None, origin: str) -> int:
    """Returns the number of classes.

    Args:
      found: the ids that have samples, none of them negative.
      declared: the number of classes, or None if nothing declares it.
      origin: named in messages.

    Raises:
      IdsWithGaps: nothing declares the number of classes, and an id below the largest has no
        sample.
    """
    ids = sorted(set(found))
    if declared:
        return declared
    classes = 1 + max(ids, default=0)
    if len(ids) < classes:
        have, missing = _ranges(ids), _ranges(sorted(set(range(classes)) - set(ids)))
        raise IdsWithGaps(
            f"{origin}: class ids are {have}; without a sample: {missing}. Ids start at 0 and have"
            f" no gaps: number the classes 0..{len(ids) - 1}. Or, if there are classes without"
            f" samples, declare them by {DECLARE}."
        )
    return classes


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


def empty_classes(ids: Sequence[int], names: Sequence[str]) -> list[str]:
    """Returns a sentence that names the classes without a sample, or none if all have one.

    >>> empty_classes([1, 2], ["cat", "dog", "owl"]), empty_classes([3, 4, 5], [])
    (["no image is of class 'dog', 'owl'"], ['no image is of class 3 to 5'])
    """
    if not ids:
        return []
    return [f"no image is of class {_list([names[i] for i in ids]) if names else _ranges(ids)}"]


def read_names(content: bytes, name: str) -> list[str]:
    """Returns the names of classes from a text with one on each line.

    Args:
      content: of the file.
      name: what a message calls it.

    Raises:
      BadInput: an empty line between names, or a name that is there twice.
    """
    lines = nfc(read_text(content, name)).splitlines()
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


def last_of_place(place: str) -> str:
    """Returns the last piece of a place: "line 3" of "labels.csv, line 3"."""
    return place.rpartition(", ")[2]


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:_SHOWN])) + (", …" if len(names) > _SHOWN else "")


def _ranges(ids: Sequence[int]) -> str:
    """Returns sorted numbers as text.

    >>> _ranges([0, 1, 2, 4, 6, 7])
    '0 to 2, 4, 6 to 7'
    """
    ranges: list[list[int]] = []
    for number in ids:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    texts = [f"{a} to {b}" if b > a else str(a) for a, b in ranges]
    more = [f"{len(texts) - _SHOWN} more ranges"] if len(texts) > _SHOWN else []
    return ", ".join(texts[:_SHOWN] + more)
