"""Pools of images to label (a folder, an npz file, or a split of a data set), and the samples that
were added to a session together, with their files.
"""

import hashlib
import io
import json
import os
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path

import numpy as np

from nevis_stream import catalogue
from nevis_stream.active_testing.surrogate import LabelledSamples, SurrogateData
from nevis_stream.datasets import sources
from nevis_stream.datasets.dataset import SINGLE_LABEL
from nevis_stream.datasets.files import check_special, is_image, walk
from nevis_stream.datasets.images import ArrayImages, EncodedImages, Images, SourceImage
from nevis_stream.datasets.part_names import parts_called
from nevis_stream.datasets.splits import divide
from nevis_stream.errors import BadInput, DataWarning, unknown
from nevis_stream.storage import write_directory
from nevis_stream.storage.names import as_text
from nevis_stream.storage.reading import load_array, nfc, read_json, read_npz

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


def make_absolute(pool: str) -> str:
    """Returns the pool's name with an absolute path; a split of a data set stays as it is."""
    path, part = _path_and_part(pool)
    return f"{os.path.abspath(path)}{part and f':{part}'}" if Path(path).exists() else pool


def show_path(path: str) -> str:
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
    return as_text(file.relative_to(folder).as_posix())


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


_ARRAYS = ("features", "images", "ensemble", "outcomes")
_EXAMPLES = ("training", "calibration")


def digest(ids: Sequence[str], predictions: np.ndarray) -> str:
    """Returns 16 hex digits that identify samples and the models' probabilities on them."""
    content = hashlib.sha256("\n".join(ids).encode())
    content.update(np.ascontiguousarray(predictions, np.float64).tobytes())
    return content.hexdigest()[:16]


@dataclass(frozen=True)
class Generation:
    """Samples that were added together.

    Attributes:
      pool: where their images are, see `make_absolute`.
      ids: their ids.
      predictions: float64[models, n, c].
      data: what the surrogate can learn from.
      hashes: S32[n], of the pixels of each image; None if they are not known.
      first: position of the first sample among all samples of the session.
    """

    pool: str
    ids: Sequence[str]
    predictions: np.ndarray
    data: SurrogateData
    hashes: np.ndarray | None = None
    first: int = 0

    @cached_property
    def digest(self) -> str:
        """Identifies the ids and predictions."""
        return digest(self.ids, self.predictions)

    @property
    def rows(self) -> np.ndarray:
        """int64[n], positions among all samples."""
        return np.arange(self.first, self.first + len(self.ids))

    def contains(self, rows: np.ndarray) -> np.ndarray:
        """Returns bool[k]: which of the positions int64[k] are those of its samples."""
        return (rows >= self.first) & (rows < self.first + len(self.ids))


def write_generation(directory: Path, number: int, generation: Generation) -> None:
    """Writes generation-NUMBER of the session in a directory: all of it, or nothing.

    Args:
      directory: of the session.
      number: from 0.
      generation: the samples.
    """
    ids, data = list(generation.ids), generation.data
    about = {"pool": generation.pool, "ids": ids, "digest": generation.digest}
    files = {
        "ids.json": json.dumps(about).encode(),
        "models.npy": _array_bytes(generation.predictions),
    }
    if generation.hashes is not None:
        files["pixel-hashes.npy"] = _array_bytes(generation.hashes)
    for name in _ARRAYS:
        if (array := getattr(data, name)) is not None:
            files[f"pool-{name}.npy"] = _array_bytes(array)
    for part in _EXAMPLES:
        examples = getattr(data, part)
        for field in fields(LabelledSamples):
            if examples is not None and (array := getattr(examples, field.name)) is not None:
                files[f"{part}-{field.name}.npy"] = _array_bytes(array)
    write_directory(directory / f"generation-{number}", files)


def read_generation(folder: Path, first: int) -> Generation:
    """Returns the samples of a folder; large arrays stay on disk.

    Args:
      folder: DIRECTORY/generation-NUMBER.
      first: number of samples in the generations before it.

    Raises:
      BadInput: a file is damaged or missing.
    """

    def array(name: str) -> np.ndarray | None:
        file = folder / f"{name}.npy"
        return load_array(file) if file.exists() else None

    try:
        about = read_json(folder / "ids.json")
        predictions = load_array(folder / "models.npy", mapped=False)
        examples = {
            part: LabelledSamples(
                **{f.name: array(f"{part}-{f.name}") for f in fields(LabelledSamples)}
            )
            for part in _EXAMPLES
            if (folder / f"{part}-labels.npy").exists()
        }
        arrays = {name: array(f"pool-{name}") for name in _ARRAYS}
        pool, ids, hashes = about["pool"], about["ids"], array("pixel-hashes")
        if not isinstance(pool, str) or predictions.dtype.kind != "f":
            raise ValueError("a value has an unexpected type")
        if hashes is not None and (hashes.shape != (len(ids),) or hashes.dtype.kind != "S"):
            raise ValueError("its pixel hashes do not fit its ids")
        data = SurrogateData(predictions[0], **arrays, **examples)
        generation = Generation(pool, ids, predictions, data, hashes, first)
        if generation.digest != about["digest"]:
            raise ValueError("the models' probabilities or the ids are not those it began with")
    except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
        raise BadInput(f"{folder}: damaged ({error}).") from None
    return generation


def _array_bytes(array: np.ndarray) -> bytes:
    with io.BytesIO() as buffer:
        np.save(buffer, np.asarray(array), allow_pickle=False)
        return buffer.getvalue()
