"""The content of a data set to be written: examined, labelled, without exact duplicates, in four
splits.
"""

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from nevis_stream.datasets.dataset import MULTI_LABEL, SINGLE_LABEL, find_present_classes
from nevis_stream.datasets.files import Example
from nevis_stream.datasets.images import SourceImage, compute_dhashes, hash_pixels, make_thumbnail
from nevis_stream.datasets.raw_formats.paths import divide_into_quantiles
from nevis_stream.datasets.reading import Reading, describe_left_out
from nevis_stream.datasets.splits import assign
from nevis_stream.errors import BadInput
from nevis_stream.progress import Progress

_EVERY = 256  # examples between two reports of progress


@dataclass(frozen=True)
class Split:
    """The samples of a split in the order in which they are stored: by the sha256 of their ids.

    Attributes:
      images: the images.
      tensors: labels, sizes, part, index, sha256, dhash as `prepared.read_tensors` returns them.
      names: names of the images' files; empty where they have none.
    """

    images: Sequence[SourceImage]
    tensors: Mapping[str, np.ndarray]
    names: Sequence[str] = ()


@dataclass(frozen=True)
class Content:
    """A data set ready to be written.

    Attributes:
      dataset_id: its name.
      kind: "single_label" or "multi_label".
      num_classes: number of class ids.
      class_names: in the order of the ids, where classes have names.
      channels: 1 or 3, as stored.
      parts: names of the source parts, as `part` in the tensors numbers them.
      splits: by name.
      facts: further facts for prepared.json: counts, duplicates, unreadable files.
    """

    dataset_id: str
    kind: str
    num_classes: int
    class_names: Sequence[str]
    channels: int
    parts: Sequence[str]
    splits: Mapping[str, Split]
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """64 hex digits that change with any pixel, label, id or split."""
        total = hashlib.sha256(
            f"{self.dataset_id}/{self.kind}/{self.num_classes}/{list(self.parts)}".encode()
        )
        for name, split in self.splits.items():
            total.update(f"/{name}/".encode())
            for tensor in ("labels", "part", "index", "sha256"):
                total.update(np.ascontiguousarray(split.tensors[tensor]).tobytes())
        return total.hexdigest()

    @property
    def shape(self) -> tuple[int, int] | None:
        """Height and width, where all images have the same."""
        sizes = np.concatenate([split.tensors["sizes"] for split in self.splits.values()])
        return None if (sizes != sizes[0]).any() else (int(sizes[0, 0]), int(sizes[0, 1]))


def from_examples(
    dataset_id: str,
    examples: Sequence[Example],
    layout: Mapping[str, Any],
    kind: str,
    num_classes: int,
    channels: int,
    origin: str,
    progress: Progress,
    reading: Reading | None = None,
) -> Content:
    """Examines all images, removes exact duplicates and divides the rest.

    Args:
      dataset_id: its name.
      examples: as a reader found them.
      layout: a table of layouts.toml, or {} for the usual rules.
      kind: "single_label" or "multi_label".
      num_classes: as the catalogue says.
      channels: as the catalogue says; 3 is stored where an image has colours.
      origin: named in error messages.
      progress: is told the stages.
      reading: what the files were understood as; None: as the examples show.

    Raises:
      BadInput: a corrupt image (unless the layout skips them), missing classes, or parts that no
        rule divides.
    """
    skip = layout.get("skip_examples")
    if skip:
        names = skip.split("|")
        examples = [e for e in examples if not any(name in e.key for name in names)]
    examples = arrange(examples, layout, dataset_id)
    parts = list(dict.fromkeys(example.part for example in examples))
    numbers: Counter = Counter()
    facts, readable, index, unreadable, grey = [], [], [], [], True
    for position, example in enumerate(examples):
        if position % _EVERY == 0:
            progress.stage("examine", position, len(examples))
        try:
            opened = example.image.open()
        except BadInput:
            if layout.get("unreadable") != "skip":
                raise
            unreadable.append(example.image.name)
            continue
        image_facts = examine(opened)
        if min(image_facts.height, image_facts.width) < 1:
            raise BadInput(f"{example.image.name}: the image has no pixels.")
        grey = grey and opened.mode == "L"
        readable.append(example)
        facts.append(image_facts)
        index.append(numbers[example.part])
        numbers[example.part] += 1
    if not readable:
        raise BadInput(f"{origin}: none of its images can be read.")
    labels, classes, names = make_class_ids(readable, layout, kind, num_classes, origin)
    if reading is None:
        skipped = describe_left_out("images that cannot be read", unreadable)
        empty = int((~find_present_classes([labels], classes)).sum())
        labels_from = "the layout of the catalogue"
        reading = Reading(dict(numbers), kind, classes, names, labels_from, empty, skipped)
    names = names or reading.classes
    file_names = [example.file_name for example in readable]
    tensors = {
        "labels": labels,
        "sizes": np.asarray([(f.height, f.width) for f in facts], np.int32),
        "part": np.asarray([parts.index(example.part) for example in readable], np.uint8),
        "index": np.asarray(index, np.int32),
        "sha256": np.frombuffer(b"".join(f.sha256 for f in facts), np.uint8).reshape(-1, 32),
        "dhash": compute_dhashes(np.stack([f.thumbnail for f in facts])),
    }
    part_names = np.asarray([example.part for example in readable])
    hashes = np.asarray([f.sha256 for f in facts], object)
    stays, removed = choose_duplicates(part_names, hashes, labels)
    remaining = np.flatnonzero(stays)
    for part in set(part_names.tolist()) - set(part_names[remaining].tolist()):
        raise BadInput(
            f"{origin}: every image of part {part!r} is also in another part, so nothing of it"
            " would be left. Give each part images of its own."
        )
    ids = [f"{dataset_id}/{part_names[i]}/{index[i]}" for i in remaining]
    strata = labels[remaining] if layout.get("stratify") else None
    divided = assign(dataset_id, part_names[remaining], ids, layout.get("splits"), strata)
    splits = {}
    for name, positions in divided.items():
        order = remaining[positions]
        splits[name] = Split(
            [readable[i].image for i in order],
            {key: tensor[order] for key, tensor in tensors.items()},
            [file_names[i] for i in order] if any(file_names) else (),
        )
    report = {
        "reading": reading.to_json(),
        "found": dict(sorted(numbers.items())),
        "classes_with_samples": int(find_present_classes([labels], classes).sum()),
        "exact_duplicates_removed": removed,
        "near_duplicates_of_train": count_near_duplicates(
            {name: s.tensors["dhash"] for name, s in splits.items()}
        ),
        "unreadable": unreadable,
        "splits": {name: len(split.images) for name, split in splits.items()},
    }
    return Content(
        dataset_id, kind, classes, names, 1 if channels == 1 and grey else 3, parts, splits, report
    )


# of duplicates in several parts, that of the part that is judged last is kept
PRIORITY = ("test", "dev_test", "dev")


class ImageFacts(NamedTuple):
    """What is known of an image once it has been decoded.

    Attributes:
      height: pixels.
      width: pixels.
      sha256: of the decoded pixels; grey images stored as RGB have the hash of the grey ones.
      thumbnail: uint8[8, 9] grey pixels, from which `compute_dhashes` makes the perceptual hash.
    """

    height: int
    width: int
    sha256: bytes
    thumbnail: np.ndarray


def examine(image: Image.Image) -> ImageFacts:
    """Returns size, hash and thumbnail of a decoded image."""
    return ImageFacts(image.height, image.width, hash_pixels(image), make_thumbnail(image))


def choose_duplicates(
    parts: np.ndarray, hashes: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, dict[str, int]]:
    """Chooses which of exact duplicates stay.

    Of duplicates in several source parts the one of the part that is judged last stays (test before
    dev_test before dev before the others), of duplicates in one part the first.

    Args:
      parts: str[n], the source part of each example.
      hashes: bytes[n], sha256 of the pixels.
      labels: [n] or [n, classes].

    Returns:
      bool[n], which stay; and counts: `within_parts`, `across_parts`, and `other_label` of those
      (duplicates whose labels differ).
    """
    rank = {part: number for number, part in enumerate(PRIORITY)}
    ranks = np.asarray([rank.get(part, len(PRIORITY)) for part in parts.tolist()])
    first_by_hash: dict[bytes, int] = {}
    stays = np.zeros(len(parts), bool)
    counts = {"within_parts": 0, "across_parts": 0, "other_label": 0}
    for index in np.argsort(ranks, kind="stable").tolist():
        first = first_by_hash.setdefault(hashes[index], index)
        if first == index:
            stays[index] = True
            continue
        counts["within_parts" if parts[first] == parts[index] else "across_parts"] += 1
        counts["other_label"] += int(np.any(labels[first] != labels[index]))
    return stays, counts


def count_near_duplicates(dhashes: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Counts samples of each split but train whose perceptual hash some training sample has too.

    Args:
      dhashes: uint64[n] by split.
    """
    train = np.unique(dhashes["train"])
    return {
        split: int((np.isin(values, train) & (values != 0)).sum())
        for split, values in dhashes.items()
        if split != "train"
    }


ANY = "any"


def make_class_ids(
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
        return divide_into_quantiles(scores, layout["bins"]).astype(np.int32), layout["bins"], []
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
