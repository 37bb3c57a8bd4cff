"""The samples of a labelling session that were added together, and their files."""

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path

import numpy as np

from nevis_stream.active_testing.labelling.settings import digest
from nevis_stream.active_testing.surrogate_data import LabelledSamples, SurrogateData
from nevis_stream.errors import BadInput
from nevis_stream.storage import write_directory
from nevis_stream.storage.reading import load_array, read_json

_ARRAYS = ("features", "images", "ensemble", "outcomes")
_EXAMPLES = ("training", "calibration")


@dataclass(frozen=True)
class Generation:
    """Samples that were added together.

    Attributes:
      pool: where their images are, see `pools.absolute`.
      ids: their ids.
      predictions: float64[models, n, c].
      material: what the surrogate can learn from.
      hashes: S32[n], of the pixels of each image; None if they are not known.
      first: position of the first sample among all samples of the session.
    """

    pool: str
    ids: Sequence[str]
    predictions: np.ndarray
    material: SurrogateData
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
    ids, material = list(generation.ids), generation.material
    about = {"pool": generation.pool, "ids": ids, "digest": generation.digest}
    files = {
        "ids.json": json.dumps(about).encode(),
        "models.npy": _array_bytes(generation.predictions),
    }
    if generation.hashes is not None:
        files["pixel-hashes.npy"] = _array_bytes(generation.hashes)
    for name in _ARRAYS:
        if (array := getattr(material, name)) is not None:
            files[f"pool-{name}.npy"] = _array_bytes(array)
    for part in _EXAMPLES:
        examples = getattr(material, part)
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
        material = SurrogateData(predictions[0], **arrays, **examples)
        generation = Generation(pool, ids, predictions, material, hashes, first)
        if generation.digest != about["digest"]:
            raise ValueError("the models' probabilities or the ids are not those it began with")
    except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
        raise BadInput(f"{folder}: damaged ({error}).") from None
    return generation


def _array_bytes(array: np.ndarray) -> bytes:
    with io.BytesIO() as buffer:
        np.save(buffer, np.asarray(array), allow_pickle=False)
        return buffer.getvalue()
