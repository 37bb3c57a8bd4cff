"""A zip of image files with `labels.csv` (columns path, split, label), or of class folders.

A multi-label image has class ids with spaces between them. A folder around all files is passed by.
"""

import csv
import io
import zipfile
from pathlib import Path

import numpy as np

from nevis_stream.datasets.arrangement import arrange
from nevis_stream.datasets.choices import Choices
from nevis_stream.datasets.class_folders import make_arranged
from nevis_stream.datasets.dataset import MULTI_LABEL, SINGLE_LABEL, DataSet, make_dataset
from nevis_stream.datasets.files import is_hidden, is_image
from nevis_stream.datasets.images import EncodedImages
from nevis_stream.datasets.part_names import parts_by_name
from nevis_stream.datasets.reading import HIDDEN_IMAGES, NO_IMAGES, Found, LeftOut, left_out
from nevis_stream.errors import BadInput

DESCRIPTION = (
    "a .zip of images with labels.csv (path,split,label; multi label: space-separated class ids),"
    " or with one folder of images per class"
)
_LABELS, _CLASSES = "labels.csv", "classes.txt"


def accepts(path: Path) -> bool:
    """Whether `path` is a .zip file."""
    return path.is_file() and path.suffix == ".zip"


def read(path: Path, dataset_id: str, choices: Choices) -> DataSet:
    """Reads the images in the order of labels.csv; without it, as a directory of class folders.

    `classes.txt`, where present, gives the names and the number of classes.
    """
    kind, num_classes, names = choices.kind, choices.num_classes, []
    try:
        with zipfile.ZipFile(path) as archive:
            members = {name for name in archive.namelist() if not name.endswith("/")}
            top = _top(path, members)
            if top is None:
                return _read_folders(path, dataset_id, archive, choices)
            rows = _rows(path, archive.read(top + _LABELS))
            if top + _CLASSES in members:
                names = archive.read(top + _CLASSES).decode("utf-8-sig").splitlines()
                num_classes = num_classes or len(names)
            for number, row in enumerate(rows, start=2):
                if top + row["path"] not in members:
                    raise BadInput(
                        f"{path}, labels.csv line {number}: no file {row['path']!r} in the archive."
                    )
            files = [archive.read(top + row["path"]) for row in rows]
    except (zipfile.BadZipFile, OSError, UnicodeDecodeError, EOFError) as error:
        raise BadInput(f"{path}: cannot be read as a zip ({error}).") from None
    ids = [_class_ids(path, number, row["label"]) for number, row in enumerate(rows, start=2)]
    if not kind:
        kind = SINGLE_LABEL if all(len(of_one) == 1 for of_one in ids) else MULTI_LABEL
    classes = num_classes or 1 + max((max(of_one, default=0) for of_one in ids), default=0)
    splits = list(dict.fromkeys(row["split"] for row in rows))
    called = parts_by_name(splits, choices.parts, f"{path}, column split of labels.csv")
    parts, file_names = {}, {}
    for split in dict.fromkeys(called.values()):
        members_of = [i for i, row in enumerate(rows) if called[row["split"]] == split]
        file_names[split] = [rows[i]["path"] for i in members_of]
        images = EncodedImages(
            [files[i] for i in members_of],
            [f"{path}:{rows[i]['path']}" for i in members_of],
            background=choices.ground(),
        )
        lines = [i + 2 for i in members_of]
        parts[split] = images, _labels(path, kind, classes, [ids[i] for i in members_of], lines)
    others = members - {top + row["path"] for row in rows} - {top + _LABELS, top + _CLASSES}
    left = _left_out(sorted(others), "images that labels.csv does not list")
    found = Found(names, file_names, _LABELS, left, parts_known=True)
    return make_dataset(dataset_id, kind, parts, classes, str(path), choices, found)


def _top(path: Path, members: set[str]) -> str | None:
    """Returns the folder of labels.csv, as its files' names begin with it; None without the file.

    Raises:
      BadInput: several folders have one.
    """
    if _LABELS in members:
        return ""
    tops = [name.removesuffix(_LABELS) for name in members if name.endswith(f"/{_LABELS}")]
    tops = sorted(top for top in tops if not _is_hidden(top))
    if len(tops) > 1:
        raise BadInput(f"{path}: has {len(tops)} files {_LABELS}: in {' and '.join(tops[:2])}.")
    return tops[0] if tops else None


def _read_folders(
    path: Path, dataset_id: str, archive: zipfile.ZipFile, choices: Choices
) -> DataSet:
    """Reads class folders of an archive."""
    listed = sorted(archive.namelist(), key=lambda name: name.split("/"))
    files = [name for name in listed if not name.endswith("/")]
    images = [name for name in files if is_image(name) and not _is_hidden(name)]
    folders = {name.rstrip("/") for name in listed if name.endswith("/") and not _is_hidden(name)}
    if not any("/" in name for name in images):
        raise BadInput(
            f"{path}: has no labels.csv and no class folder with images; expected {DESCRIPTION}."
        )

    def read_images(names: list[str]) -> EncodedImages:
        return EncodedImages(
            [archive.read(name) for name in names],
            [f"{path}:{name}" for name in names],
            background=choices.ground(),
        )

    return make_arranged(
        str(path),
        dataset_id,
        arrange(str(path), images, folders, choices),
        choices,
        read_images,
        _left_out([name for name in files if name not in set(images)], ""),
    )


def _is_hidden(name: str) -> bool:
    return any(map(is_hidden, name.rstrip("/").split("/")))


def _left_out(others: list[str], seen: str) -> list[LeftOut]:
    """Returns what was left out of an archive: hidden images, images that can be seen, the rest."""
    hidden = [name for name in others if is_image(name) and _is_hidden(name)]
    images = [name for name in others if is_image(name) and not _is_hidden(name)]
    rest = [name for name in others if not is_image(name) and not _is_hidden(name)]
    return [
        *left_out(seen, images),
        *left_out(HIDDEN_IMAGES, hidden),
        *left_out(NO_IMAGES, rest),
    ]


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
