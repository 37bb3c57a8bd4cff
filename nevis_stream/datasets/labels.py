"""Class ids from the labels of raw data sets, and the parts that are drawn class by class."""

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from nevis_stream.datasets.dataset import MULTI_LABEL, SINGLE_LABEL
from nevis_stream.datasets.raw_formats.companion import equal_mass_bins
from nevis_stream.datasets.raw_formats.tree import Example
from nevis_stream.errors import BadInput

ANY = "any"


def class_ids(
    examples: Sequence[Example], layout: Mapping[str, Any], kind: str, num_classes: int, origin: str
) -> tuple[np.ndarray, int, list[str]]:
    """Returns the labels as ids, the number of classes, and the classes' names (or []).

    Names are sorted (numbers by value). The layout's `classes` gives them instead, `bins` cuts
    scores into that number of bins of equal mass over all examples (scores above `largest_score`
    count as that), `first` is the number of class 0.

    Args:
      examples: what a reader found.
      layout: a table of layouts.toml; `populated` is the number of classes with samples ("any": not
        checked).
      kind: "single_label" or "multi_label".
      num_classes: as the catalogue says.
      origin: named in error messages.

    Returns:
      int32[n], or uint8[n, classes] for multi label.

    Raises:
      BadInput: a class without samples that should have some, or a class that should not be there.
    """
    values = [example.label for example in examples]
    populated = layout.get("populated", num_classes)
    if "bins" in layout:
        scores = np.minimum(np.asarray(values, float), layout.get("largest_score", np.inf))
        return equal_mass_bins(scores, layout["bins"]).astype(np.int32), layout["bins"], []
    if kind == MULTI_LABEL:
        values = [frozenset(value) for value in values]
        ids, names = _ids_by_name(frozenset().union(*values), layout, origin)
    else:
        ids, names = _ids_by_name(set(values), layout, origin)
    if populated == ANY and names:
        num_classes = len(names)
    wrong = [name for name, number in ids.items() if not 0 <= number < num_classes]
    if wrong or (names and len(names) > num_classes):
        extra = ", ".join(map(str, sorted(wrong, key=str)[:5]))
        raise BadInput(
            f"{origin}: {len(ids)} classes where {num_classes} are expected; unexpected: {extra}."
        )
    if populated != ANY and len(ids) < populated:
        have = ", ".join(map(str, sorted(ids, key=str)[:200]))
        raise BadInput(
            f"{origin}: {populated - len(ids)} of {populated} classes have no sample. Found:"
            f" {have}. Is the archive complete?"
        )
    if kind == SINGLE_LABEL:
        return np.asarray([ids[value] for value in values], np.int32), num_classes, names
    labels = np.zeros((len(values), num_classes), np.uint8)
    for row, value in zip(labels, values, strict=True):
        row[[ids[name] for name in value]] = 1
    return labels, num_classes, names


def _ids_by_name(
    values: set[Any], layout: Mapping[str, Any], origin: str
) -> tuple[dict[Any, int], list[str]]:
    if all(isinstance(value, int) for value in values):
        return {value: value for value in values}, []
    if "classes" in layout:
        names = list(layout["classes"])
        unexpected = sorted(values - set(names))
        if unexpected:
            raise BadInput(f"{origin}: class {unexpected[0]!r} is not one of {', '.join(names)}.")
        return {name: names.index(name) for name in values}, names
    if all(name.isdigit() for name in values):
        names = sorted({str(int(name)) for name in values}, key=int)
        first = layout.get("first")
        if first is not None:
            return {name: int(name) - first for name in values}, []
        return {name: names.index(str(int(name))) for name in values}, names
    names = sorted(values)
    return {name: number for number, name in enumerate(names)}, names


def arrange(
    examples: Iterable[Example], layout: Mapping[str, Any], dataset_id: str
) -> list[Example]:
    """Applies the rules that draw parts class by class, and drops what the layout excludes.

    The result is sorted by part and key.

    Args:
      examples: what a reader found.
      layout: may have `min_per_class`, `last_of_class` {PART: count, rest: PART} (in the order of
        the keys), `first_of_class` (the same, in the order of their hashes).
      dataset_id: seeds the hashes.
    """
    examples = list(examples)
    if "min_per_class" in layout:
        counts = Counter(example.label for example in examples)
        examples = [
            example for example in examples if counts[example.label] >= layout["min_per_class"]
        ]
    for rule, order in (
        ("last_of_class", lambda example: example.key),
        (
            "first_of_class",
            lambda example: hashlib.sha256(f"{dataset_id}/{example.key}".encode()).hexdigest(),
        ),
    ):
        if rule in layout:
            examples = _by_class(
                examples, layout[rule], order, from_the_end=rule == "last_of_class"
            )
    return sorted(examples, key=lambda example: (example.part, example.key))


def _by_class(
    examples: list[Example], rule: Mapping[str, Any], order: Any, from_the_end: bool
) -> list[Example]:
    by_class: dict[Any, list[Example]] = {}
    for example in examples:
        by_class.setdefault(example.label, []).append(example)
    arranged = []
    for class_examples in by_class.values():
        class_examples.sort(key=order, reverse=from_the_end)
        start = 0
        for part, count in rule.items():
            if part == "rest":
                continue
            chosen = class_examples[start : start + count]
            arranged += [dataclasses.replace(e, part=part) for e in chosen]
            start += count
        arranged += [dataclasses.replace(e, part=rule["rest"]) for e in class_examples[start:]]
    return arranged
