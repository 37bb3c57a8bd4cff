"""A zip of image files with `labels.csv`: columns path, split, label.

A multi-label image has class ids with spaces between them.
"""

import csv
import io
import zipfile
from pathlib import Path

import numpy as np

from nevis_stream.datasets.choices import Choices
from nevis_stream.datasets.dataset import MULTI_LABEL, SINGLE_LABEL, DataSet, make_dataset
from nevis_stream.datasets.images import EncodedImages
from nevis_stream.errors import BadInput

DESCRIPTION = (
    "a .zip of images with labels.csv (path,split,label; multi label: space-separated class ids)"
)


def accepts(path: Path) -> bool:
    """Whether `path` is a .zip file."""
    return path.is_file() and path.suffix == ".zip"


def read(path: Path, dataset_id: str, choices: Choices) -> DataSet:
    """Reads the images in the order of labels.csv.

    `classes.txt`, where present, gives the number of classes.
    """
    kind, num_classes = choices.kind, choices.num_classes
    try:
        with zipfile.ZipFile(path) as archive:
            members = set(archive.namelist())
            if "labels.csv" not in members:
                raise BadInput(f"{path}: has no labels.csv; expected {DESCRIPTION}.")
            rows = _rows(path, archive.read("labels.csv"))
            if num_classes is None and "classes.txt" in members:
                num_classes = len(archive.read("classes.txt").decode().splitlines())
            for number, row in enumerate(rows, start=2):
                if row["path"] not in members:
                    raise BadInput(
                        f"{path}, labels.csv line {number}: no file {row['path']!r} in the archive."
                    )
            files = [archive.read(row["path"]) for row in rows]
    except (zipfile.BadZipFile, OSError, UnicodeDecodeError, EOFError) as error:
        raise BadInput(f"{path}: cannot be read as a zip ({error}).") from None
    ids = [_class_ids(path, number, row["label"]) for number, row in enumerate(rows, start=2)]
    if not kind:
        kind = SINGLE_LABEL if all(len(of_one) == 1 for of_one in ids) else MULTI_LABEL
    classes = num_classes or 1 + max((max(of_one, default=0) for of_one in ids), default=0)
    parts = {}
    for split in dict.fromkeys(row["split"] for row in rows):
        members_of = [i for i, row in enumerate(rows) if row["split"] == split]
        images = EncodedImages(
            [files[i] for i in members_of],
            [f"{path}:{rows[i]['path']}" for i in members_of],
            background=choices.ground(),
        )
        lines = [i + 2 for i in members_of]
        parts[split] = images, _labels(path, kind, classes, [ids[i] for i in members_of], lines)
    return make_dataset(dataset_id, kind, parts, classes, origin=str(path))


def _rows(path: Path, content: bytes) -> list[dict[str, str]]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path}: labels.csv is not UTF-8 ({error}). Save it as UTF-8.") from None
    reader = csv.DictReader(io.StringIO(text, newline=""))
    missing = [name for name in ("path", "split", "label") if name not in (reader.fieldnames or ())]
    if missing:
        raise BadInput(
            f"{path}: labels.csv has no column {' or '.join(missing)}; it needs path,split,label,"
            " where split is all for every image, or train or test, to which dev, or dev and"
            " dev_test, may be added."
        )
    rows = list(reader)
    if not rows:
        raise BadInput(f"{path}: labels.csv has no row.")
    _refuse_repeated(path, rows)
    return rows


def _refuse_repeated(path: Path, rows: list[dict[str, str]]) -> None:
    first: dict[str, int] = {}
    for line, row in enumerate(rows, start=2):
        before = first.setdefault(row["path"], line)
        if before != line:
            raise BadInput(
                f"{path}, labels.csv line {line}: {row['path']!r} is in part {row['split']!r} here"
                f" and in part {rows[before - 2]['split']!r} in line {before}. List every image"
                " once: delete one of the two lines."
            )


def _class_ids(path: Path, line: int, label: str | None) -> list[int]:
    try:
        return [int(word) for word in (label or "").split()]
    except ValueError:
        raise BadInput(
            f"{path}, labels.csv line {line}: label {label!r} is not a class id. Class ids"
            " are whole numbers from 0; put spaces between those of an image with several."
        ) from None


def _labels(
    path: Path, kind: str, classes: int, ids: list[list[int]], lines: list[int]
) -> np.ndarray:
    for of_one, line in zip(ids, lines, strict=True):
        if kind == SINGLE_LABEL and len(of_one) != 1:
            raise BadInput(
                f"{path}, labels.csv line {line}: {len(of_one)} labels in a single_label task."
            )
        for label in of_one:
            if not 0 <= label < classes:
                raise BadInput(
                    f"{path}, labels.csv line {line}: label {label} is out of range; valid:"
                    f" 0..{classes - 1}."
                )
    if kind == SINGLE_LABEL:
        return np.asarray([of_one[0] for of_one in ids], np.int32)
    labels = np.zeros((len(ids), classes), np.uint8)
    for row, of_one in enumerate(ids):
        labels[row, of_one] = 1
    return labels
