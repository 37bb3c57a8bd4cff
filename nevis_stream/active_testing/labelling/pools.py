"""What a session begins with: a pool of images to label (a folder, an npz file, or a split of a
data set), and files of a model's probabilities on it, joined to its samples by their ids.
"""

import os
import re
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nevis_stream import catalogue
from nevis_stream.active_testing.pool import check_probabilities
from nevis_stream.datasets import sources
from nevis_stream.datasets.dataset import SINGLE_LABEL, DataSet
from nevis_stream.datasets.files import check_special, is_image, walk
from nevis_stream.datasets.images import ArrayImages, EncodedImages, Images, SourceImage
from nevis_stream.datasets.reading import match_parts
from nevis_stream.datasets.splits import divide
from nevis_stream.errors import BadInput, DataWarning, unknown
from nevis_stream.evaluation_cache.facts import make_natural_sort_key
from nevis_stream.storage.reading import read_npz
from nevis_stream.storage.tables import normalise_name, read_rows, shorten
from nevis_stream.terminal import as_text

FORMS = (
    "a folder of images, an .npz with images (FILE.npz, or FILE.npz:PART for images_PART), or a"
    " split of a data set (mnist:test)"
)


@dataclass(frozen=True)
class PoolImages:
    """n images.

    Attributes:
      ids: unique names of the samples, in order.
      images: n images.
      labels: int64[n] if the source has them, else None. A session does not look at them.
      classes: names of the classes, if the source has them.
      from_paths: whether the ids are paths of files, sorted.
      dataset: of which it is a split; None for files.
    """

    ids: Sequence[str]
    images: Images
    labels: np.ndarray | None = None
    classes: Sequence[str] = ()
    from_paths: bool = False
    dataset: DataSet | None = None


def make_absolute(pool: str) -> str:
    """Returns the pool's name with an absolute path; a split of a data set stays as it is."""
    path, part = _path_and_part(pool)
    return f"{os.path.abspath(path)}{part and f':{part}'}" if Path(path).exists() else pool


def _path_and_part(pool: str) -> tuple[str, str]:
    """Returns FILE.npz and PART of FILE.npz:PART; of anything else, itself and nothing."""
    path, _, part = pool.rpartition(":") if ".npz:" in pool else (pool, "", "")
    return path, part


def load_pool(pool: str, ids: Collection[str] | None = None) -> PoolImages:
    """Returns a pool.

    Args:
      pool: see `FORMS`. Ids are paths below the folder, positions in the array, or the data set's
        sample ids. If images are in folders below it, these are the classes.
      ids: of a folder, only these samples are read; None reads all.

    Raises:
      BadInput: no such pool, or it has no image.
    """
    path, part = _path_and_part(pool)
    if Path(path).is_dir():
        return _folder(Path(path), ids)
    if path.endswith(".npz"):
        return _npz(Path(path), part)
    name, _, split = pool.partition(":")
    known = catalogue.read_datasets()
    if not split or name not in known:
        hint = unknown("data set", name, known) if split else "no such folder or file."
        raise BadInput(f"--pool={pool}: {hint} A pool is {FORMS}.")
    dataset = sources.load(name, known[name]["source"])
    if dataset.kind != SINGLE_LABEL:
        raise BadInput(f"--pool={pool}: is multi-label; one label per sample is needed.")
    parts = divide(dataset)
    if split not in parts:
        raise BadInput(f"--pool={pool}: {unknown('split', split, parts)}")
    samples = parts[split]
    classes = dataset.class_names
    return PoolImages(samples.ids, samples.images, samples.labels, classes, dataset=dataset)


def _folder(folder: Path, ids: Collection[str] | None) -> PoolImages:
    found = walk(folder)
    check_special(folder, found.special)
    files = [folder / name for name in found.files if is_image(name)]
    if ids is not None:
        files = [file for file in files if _id(file, folder) in ids]
    elif not files:
        raise BadInput(f"{folder}: contains no image file.")
    names = [_id(file, folder) for file in files]
    labels, classes = _labels(folder, names) if ids is None else (None, ())
    images = EncodedImages(map(SourceImage, files))
    _warn_of_changes(images)
    return PoolImages(names, images, labels, classes, True)


def _warn_of_changes(images: Images) -> None:
    for note in images.notes:
        warnings.warn(note, DataWarning, stacklevel=3)


def _id(file: Path, folder: Path) -> str:
    return as_text(file.relative_to(folder).as_posix())


def _labels(folder: Path, names: Sequence[str]) -> tuple[np.ndarray | None, Sequence[str]]:
    """Returns the classes of images in class folders, or None and no class where these are none.

    Raises:
      BadInput: the folders are parts of a data set, and not classes.
    """
    tops = {name.partition("/")[0] for name in names if "/" in name}
    parts = match_parts(tops)
    if len(set(parts.values())) > 1 or (len(tops) == 1 and parts):
        part = max(parts, key=lambda name: parts[name] == "test")
        raise BadInput(
            f"{folder}: its folders are called like the parts of a data set"
            f" ({', '.join(sorted(parts))}), and a pool is one of them: --pool={folder / part}."
        )
    depths = {name.count("/") for name in names}
    if depths != {1} or len(tops) < 2:  # loose images, or folders in folders, say no class
        return None, ()
    classes = sorted({normalise_name(top) for top in tops})
    return np.array(
        [classes.index(normalise_name(name.partition("/")[0])) for name in names]
    ), classes


def _npz(file: Path, part: str) -> PoolImages:
    arrays = read_npz(file)
    name = f"images_{part}" if part else "images"
    if name not in arrays:
        parts = [each for each in arrays if each.startswith("images_") or each == "images"]
        valid = ", ".join(
            f"{file}:{each.removeprefix('images_')}" if each != "images" else str(file)
            for each in parts
        )
        choices = f"Valid: {valid}" if parts else f"Its arrays: {', '.join(arrays) or 'none'}"
        raise BadInput(f"{file}: has no {name!r}. {choices}.")
    images = ArrayImages(arrays[name], f"{file}[{name}]")
    if not len(images):
        raise BadInput(f"{file}: {name!r} is empty.")
    _warn_of_changes(images)
    labels = arrays.get(name.replace("images", "labels", 1))
    prefix = f"{part}/" if part else ""
    return PoolImages(
        [f"{prefix}{number}" for number in range(len(images))],
        images,
        None if labels is None else labels.astype(np.int64),
    )


SUFFIXES = (".npz", ".csv")
SAMPLE = "sample"
"""The column of ids of a csv."""


def read_probabilities(file: Path, pool: PoolImages) -> tuple[np.ndarray, Sequence[str], str]:
    """Returns float64[n, c] in the order of the pool, names of the classes, and a remark.

    Args:
      file: an .npz with `probabilities` [samples, classes], and possibly `samples`, their ids, and
        `classes`, names; or a csv with a column `sample` and one for each class.
      pool: n images.

    Raises:
      BadInput: it is not such a file, lacks samples of the pool, or has no ids where the order of
        its rows is uncertain.
    """
    read = _probabilities_csv if file.suffix == ".csv" else _probabilities_npz
    values, ids, classes = read(file)
    values = check_probabilities(values, f"{file}: the probabilities", 2)
    classes = [normalise_name(name) for name in classes]
    if len(classes) not in (0, values.shape[1]):
        raise BadInput(
            f"{file}: 'classes' has {len(classes)} names; the probabilities have"
            f" {values.shape[1]} classes."
        )
    if ids is not None:
        return values[_rows(file, ids, len(values), pool)], classes, ""
    return values, classes, _remark(file, len(values), pool)


def _probabilities_npz(file: Path) -> tuple[np.ndarray, list[str] | None, list[str]]:
    arrays = read_npz(file)
    if "probabilities" not in arrays:
        has = ", ".join(arrays) or "nothing"
        raise BadInput(f"{file}: contains {has}; expected 'probabilities' [samples, classes].")
    ids, classes = (
        [str(each) for each in arrays[name].ravel().tolist()] if name in arrays else None
        for name in ("samples", "classes")
    )
    return arrays["probabilities"], ids, classes or []


def _probabilities_csv(file: Path) -> tuple[np.ndarray, list[str], list[str]]:
    (_, head), *body = read_rows(file, str(file), (SAMPLE,)) or [(1, [])]
    if head.count(SAMPLE) != 1:
        raise BadInput(
            f"{file}: its columns are {', '.join(head) or 'none'}; expected one {SAMPLE!r} and one"
            " for each class."
        )
    place = head.index(SAMPLE)
    classes, ids, values = [*head[:place], *head[place + 1 :]], [], []
    if twice := [name for name in classes if classes.count(name) > 1]:
        raise BadInput(f"{file}: the column {twice[0]!r} is there twice.")
    for line, row in body:
        try:
            values.append([float(cell) for i, cell in enumerate(row) if i != place])
            ids.append(row[place])
        except (ValueError, IndexError):
            values.append([])
        if len(values[-1]) != len(classes):
            raise BadInput(
                f"{file}, line {line}: expected a sample and {len(classes)} numbers, not"
                f" {shorten(','.join(row))!r}{_comma(row)}."
            )
    return np.array(values).reshape(len(ids), len(classes)), ids, classes


def _comma(row: Sequence[str]) -> str:
    decimal = any(re.fullmatch(r"[0-9]+,[0-9]+", cell.strip()) for cell in row)
    return "; write decimal points, not commas" * decimal


def _rows(file: Path, ids: Sequence[str], n: int, pool: PoolImages) -> np.ndarray:
    """Returns int64[n], the file's row of each sample."""
    if len(ids) != n:
        raise BadInput(f"{file}: 'samples' has {len(ids)} ids; there are {n} rows.")
    ids = [normalise_name(sample) for sample in ids]
    places = {sample: row for row, sample in enumerate(ids)}
    if len(places) < n:
        twice = next(sample for row, sample in enumerate(ids) if places[sample] != row)
        raise BadInput(f"{file}: sample {twice!r} is there twice.")
    if missing := [sample for sample in pool.ids if normalise_name(sample) not in places]:
        raise BadInput(
            f"{file}: has no sample {missing[0]!r}; {len(missing)} of {len(pool.ids)} samples of"
            f" the pool are missing. Its first sample is {ids[0]!r}."
            if ids
            else f"{file}: has no samples."
        )
    return np.array([places[normalise_name(sample)] for sample in pool.ids])


def _remark(file: Path, n: int, pool: PoolImages) -> str:
    """Says in which order rows without ids are taken, or refuses them."""
    if n != len(pool.ids):
        raise BadInput(f"{file}: has probabilities of {n} samples; the pool has {len(pool.ids)}.")
    if pool.from_paths:
        by_number = sorted(pool.ids, key=make_natural_sort_key)
        for here, there in zip(pool.ids, by_number, strict=True):
            if here != there:
                raise BadInput(
                    f"{file}: has no ids, and the pool's files have two orders: {here!r} or"
                    f" {there!r} may come first, so a row could be another file's. Add an array"
                    f" 'samples' with the path of each row below the pool's folder, or give a csv"
                    f" with a column {SAMPLE!r} and one for each class."
                )
    return (
        f"{file} has no ids: its rows are taken in the order {pool.ids[0]}, "
        + (f"{pool.ids[1]}, …, " if n > 2 else "")
        + f"{pool.ids[-1]}"
    )
