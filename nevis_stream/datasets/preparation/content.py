"""The content of a data set to be written: examined, without exact duplicates, in four splits."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nevis_stream.datasets import duplicates
from nevis_stream.datasets.dataset import present_classes
from nevis_stream.datasets.images import SourceImage
from nevis_stream.datasets.labels import arrange, class_ids
from nevis_stream.datasets.raw_formats.tree import Example
from nevis_stream.datasets.reading import Reading, left_out
from nevis_stream.datasets.splits import assign
from nevis_stream.errors import BadInput
from nevis_stream.progress import Progress

_EVERY = 256  # examples between two reports of progress


@dataclass(frozen=True)
class Split:
    """The samples of a split in the order in which they are stored: by the sha256 of their ids.

    Attributes:
      images: the images.
      tensors: labels, sizes, part, index, sha256, dhash as `prepared.index` returns them.
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
        image_facts = duplicates.examine(opened)
        if min(image_facts.height, image_facts.width) < 1:
            raise BadInput(f"{example.image.name}: the image has no pixels.")
        grey = grey and opened.mode == "L"
        readable.append(example)
        facts.append(image_facts)
        index.append(numbers[example.part])
        numbers[example.part] += 1
    if not readable:
        raise BadInput(f"{origin}: none of its images can be read.")
    labels, classes, names = class_ids(readable, layout, kind, num_classes, origin)
    if reading is None:
        skipped = left_out("images that cannot be read", unreadable)
        empty = int((~present_classes([labels], classes)).sum())
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
        "dhash": duplicates.dhashes(np.stack([f.thumbnail for f in facts])),
    }
    part_names = np.asarray([example.part for example in readable])
    hashes = np.asarray([f.sha256 for f in facts], object)
    stays, removed = duplicates.exact(part_names, hashes, labels)
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
        "classes_with_samples": int(present_classes([labels], classes).sum()),
        "exact_duplicates_removed": removed,
        "near_duplicates_of_train": duplicates.count_near(
            {name: s.tensors["dhash"] for name, s in splits.items()}
        ),
        "unreadable": unreadable,
        "splits": {name: len(split.images) for name, split in splits.items()},
    }
    return Content(
        dataset_id, kind, classes, names, 1 if channels == 1 and grey else 3, parts, splits, report
    )
