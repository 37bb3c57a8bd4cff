"""A zip of image files with `labels.csv` (columns path, split, label), or of class folders.

A label is a class id or the name of a class; a multi-label image has several with spaces between
them. A folder around all files is passed by.
"""

import lzma
import zipfile
import zlib
from collections import Counter
from pathlib import Path

import numpy as np

from nevis_stream.datasets.arrangement import arrange, make_from_arrangement
from nevis_stream.datasets.class_ids import read_cells, read_names, shorten_place
from nevis_stream.datasets.dataset import SINGLE_LABEL, DataSet, make_dataset
from nevis_stream.datasets.files import is_hidden, is_image
from nevis_stream.datasets.images import EncodedImages, SourceImage
from nevis_stream.datasets.reading import (
    HIDDEN_IMAGES,
    NO_IMAGES,
    Choices,
    Found,
    LeftOut,
    describe_left_out,
    match_all_parts,
)
from nevis_stream.errors import BadInput
from nevis_stream.storage.reading import check_zip
from nevis_stream.storage.tables import normalise_name, read_table

DESCRIPTION = (
    "a .zip of images with labels.csv (path,split,label; multi label: space-separated class ids),"
    " or with one folder of images per class"
)
_LABELS, _CLASSES = "labels.csv", "classes.txt"
_NEEDED = {
    "path": "an image in the zip",
    "split": "all for every image; or train or test, to which dev, or dev and dev_test, may be"
    " added",
    "label": "a class id or the name of a class",
}


def accepts(path: Path) -> bool:
    """Whether `path` is a .zip file."""
    return path.is_file() and path.suffix == ".zip"


def read(path: Path, dataset_id: str, choices: Choices) -> DataSet:
    """Reads the images in the order of labels.csv; without it, as a directory of class folders.

    `classes.txt`, where present, gives the names and the number of classes.
    """
    names = []
    try:
        with zipfile.ZipFile(path) as archive:
            check_zip(archive, path)
            _refuse_duplicates(archive, path)
            members = {name for name in archive.namelist() if not name.endswith("/")}
            top = _find_top(path, members)
            if top is None:
                return _read_folders(path, dataset_id, archive, choices)
            choices.refuse_for_folders(str(path), f"{_LABELS} has the labels")
            rows = _read_rows(f"{path}, {_LABELS}", archive.read(top + _LABELS))
            if top + _CLASSES in members:
                names = read_names(archive.read(top + _CLASSES), f"{path}, {_CLASSES}")
            by_form = {normalise_name(_use_slashes(name)): name for name in members}
            for place, row in rows:
                if top + row["path"] not in members:  # as Windows or a Mac writes it
                    path_there = by_form.get(normalise_name(top + _use_slashes(row["path"])))
                    if path_there is None:
                        raise BadInput(f"{place}: no file {row['path']!r} in the archive.")
                    row["path"] = path_there.removeprefix(top)
            files = [archive.read(top + row["path"]) for _, row in rows]
    except (zipfile.BadZipFile, OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise BadInput(f"{path}: cannot be read as a zip ({error}).") from None
    cells = [(place, row["label"]) for place, row in rows]
    labels = read_cells(cells, str(path), choices.kind, names, choices.num_classes)
    splits = list(dict.fromkeys(row["split"] for _, row in rows))
    part_of = match_all_parts(splits, choices.parts, f"{path}, column split of labels.csv")
    parts, file_names = {}, {}
    for part in dict.fromkeys(part_of.values()):
        indices = [i for i, (_, row) in enumerate(rows) if part_of[row["split"]] == part]
        file_names[part] = [rows[i][1]["path"] for i in indices]
        images = EncodedImages(
            SourceImage(files[i], f"{path}:{rows[i][1]['path']}", choices.ground()) for i in indices
        )
        ids = [labels.ids[i] for i in indices]
        parts[part] = images, _make_array(labels.kind, labels.num_classes, ids)
    others = members - {top + row["path"] for _, row in rows} - {top + _LABELS, top + _CLASSES}
    left = _describe_left_out(sorted(others), "images that labels.csv does not list")
    found = Found(labels.class_names, file_names, _LABELS, left, labels.notes, parts_known=True)
    return make_dataset(
        dataset_id, labels.kind, parts, labels.num_classes, str(path), choices, found
    )


def _find_top(path: Path, members: set[str]) -> str | None:
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
    stored = {_use_slashes(name): name for name in archive.namelist()}
    listed = sorted(stored, key=lambda name: name.split("/"))
    files = [name for name in listed if not name.endswith("/")]
    images = [name for name in files if is_image(name) and not _is_hidden(name)]
    folders = {name.rstrip("/") for name in listed if name.endswith("/") and not _is_hidden(name)}
    if not any("/" in name for name in images):
        raise BadInput(
            f"{path}: has no labels.csv and no class folder with images; expected {DESCRIPTION}."
        )

    def read_images(names: list[str]) -> EncodedImages:
        return EncodedImages(
            SourceImage(archive.read(stored[name]), f"{path}:{name}", choices.ground())
            for name in names
        )

    return make_from_arrangement(
        str(path),
        dataset_id,
        arrange(str(path), images, folders, choices),
        choices,
        read_images,
        _describe_left_out([name for name in files if name not in set(images)], ""),
    )


def _refuse_duplicates(archive: zipfile.ZipFile, path: Path) -> None:
    """Refuses a name that two members have: programs differ in which of them they unpack."""
    names = [_use_slashes(name) for name in archive.namelist()]
    for name, count in Counter(names).items():
        if count > 1 and not name.endswith("/"):
            raise BadInput(
                f"{path}: has {count} members called {name!r}. Unpack the archive and zip its files"
                " again."
            )


def _is_hidden(name: str) -> bool:
    return any(map(is_hidden, name.rstrip("/").split("/")))


def _describe_left_out(others: list[str], reason: str) -> list[LeftOut]:
    """Returns what was left out of an archive: images, for this reason; hidden ones; the rest."""
    hidden = [name for name in others if is_image(name) and _is_hidden(name)]
    images = [name for name in others if is_image(name) and not _is_hidden(name)]
    rest = [name for name in others if not is_image(name) and not _is_hidden(name)]
    return [
        *describe_left_out(reason, images),
        *describe_left_out(HIDDEN_IMAGES, hidden),
        *describe_left_out(NO_IMAGES, rest),
    ]


def _read_rows(name: str, content: bytes) -> list[tuple[str, dict[str, str]]]:
    """Returns the place of each row of labels.csv, and its cells by column; labels as they are."""
    table = read_table(content, name, _NEEDED)
    if not table.rows:
        raise BadInput(f"{name}: has no row.")
    label = table.columns.index("label")
    rows = [
        (table.place(line), row | {"label": cells[label]})
        for (line, row), (_, cells) in zip(table.records(), table.rows, strict=True)
    ]
    first: dict[str, tuple[str, str]] = {}
    for place, row in rows:
        for column in ("path", "split"):
            if not row[column]:
                raise BadInput(f"{place}: {column} is empty; it is {_NEEDED[column]}.")
        before, split = first.setdefault(
            normalise_name(_use_slashes(row["path"])), (place, row["split"])
        )
        if before != place:
            raise BadInput(
                f"{place}: {row['path']!r} is in part {row['split']!r} here and in part {split!r}"
                f" in {shorten_place(before)}. List every image once: delete one of the two"
                " lines."
            )
    return rows


def _use_slashes(name: str) -> str:
    return name.replace("\\", "/").removeprefix("./")


def _make_array(kind: str, classes: int, ids: list[list[int]]) -> np.ndarray:
    """Returns int32[n], or uint8[n, classes] for multi label."""
    if kind == SINGLE_LABEL:
        return np.asarray([of_one[0] for of_one in ids], np.int32)
    labels = np.zeros((len(ids), classes), np.uint8)
    for row, of_one in enumerate(ids):
        labels[row, of_one] = 1
    return labels
