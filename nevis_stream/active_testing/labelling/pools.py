"""Pools of images to label: a folder, an npz file, or a split of a data set."""

import os
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nevis_stream import catalogue
from nevis_stream.datasets import sources
from nevis_stream.datasets.dataset import SINGLE_LABEL
from nevis_stream.datasets.files import check_special, is_image, walk
from nevis_stream.datasets.images import ArrayImages, EncodedImages, Images, SourceImage
from nevis_stream.datasets.part_names import parts_called
from nevis_stream.datasets.splits import divide
from nevis_stream.errors import BadInput, DataWarning, unknown
from nevis_stream.storage.names import readable
from nevis_stream.storage.reading import nfc, read_npz

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
    """

    ids: Sequence[str]
    images: Images
    labels: np.ndarray | None = None
    classes: Sequence[str] = ()
    from_paths: bool = False


def absolute(pool: str) -> str:
    """Returns the pool's name with an absolute path; a split of a data set stays as it is."""
    path, part = _path_and_part(pool)
    return f"{os.path.abspath(path)}{part and f':{part}'}" if Path(path).exists() else pool


def show_value(path: str) -> str:
    """Returns an absolute path as a person here would type it; any other name as it is."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path


def _path_and_part(pool: str) -> tuple[str, str]:
    """Returns FILE.npz and PART of FILE.npz:PART; of anything else, itself and nothing."""
    path, _, part = pool.rpartition(":") if ".npz:" in pool else (pool, "", "")
    return path, part


def load_pool(pool: str, ids: Collection[str] | None = None) -> PoolImages:
    """Returns a pool.

    Args:
      pool: see `FORMS`. Ids are paths below the folder, positions in the array, or the data set's
        sample ids. In a folder of folders of images these are the classes.
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
    known = catalogue.datasets()
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
    return PoolImages(samples.ids, samples.images, samples.labels, dataset.class_names)


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
    return readable(file.relative_to(folder).as_posix())


def _labels(folder: Path, names: Sequence[str]) -> tuple[np.ndarray | None, Sequence[str]]:
    """Returns the classes of images in class folders, or None and no class where these are none.

    Raises:
      BadInput: the folders are parts of a data set, and not classes.
    """
    tops = {name.partition("/")[0] for name in names if "/" in name}
    parts = parts_called(tops)
    if len(set(parts.values())) > 1 or (len(tops) == 1 and parts):
        part = max(parts, key=lambda name: parts[name] == "test")
        raise BadInput(
            f"{folder}: its folders are called like the parts of a data set"
            f" ({', '.join(sorted(parts))}), and a pool is one of them: --pool={folder / part}."
        )
    depths = {name.count("/") for name in names}
    if depths != {1} or len(tops) < 2:  # loose images, or folders in folders, say no class
        return None, ()
    classes = sorted({nfc(top) for top in tops})
    return np.array([classes.index(nfc(name.partition("/")[0])) for name in names]), classes


def _npz(file: Path, part: str) -> PoolImages:
    arrays = read_npz(file)
    name = f"images_{part}" if part else "images"
    if name not in arrays:
        parts = [each for each in arrays if each.startswith("images_") or each == "images"]
        valid = ", ".join(
            f"{file}:{each.removeprefix('images_')}" if each != "images" else str(file)
            for each in parts
        )
        there = f"Valid: {valid}" if parts else f"Its arrays: {', '.join(arrays) or 'none'}"
        raise BadInput(f"{file}: has no {name!r}. {there}.")
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
