"""The files of a labelling session: its settings, the samples that were added together, and the
lines of its two logs, with what is wrong with a damaged one.
"""

import hashlib
import io
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.active_testing.surrogate import LabelledSamples, SurrogateData
from nevis_stream.errors import BadInput
from nevis_stream.queries.oracle import NO_LABEL
from nevis_stream.storage import write_directory
from nevis_stream.storage.reading import load_array, locate, make_relative, read_json
from nevis_stream.storage.record import encode

UNKNOWN = "?"
"""What a person types where nobody can tell the class."""
STUDY = "study.json"  # what identifies a study


@dataclass(frozen=True)
class SessionSettings:
    """What identifies a session.

    Attributes:
      pool: where the images are, see `pools.make_absolute`; in the file of a session from there.
      models: paths of the tested models, likewise.
      classes: names of the c classes.
      loss, rule, surrogate: names.
      uniform: fraction of uniform draws.
      seed: of all random numbers.
      digest: 16 hex digits of the ids and the models' probabilities.
    """

    pool: str
    models: Sequence[str]
    classes: Sequence[str]
    loss: str
    rule: str
    surrogate: str
    uniform: float
    seed: int
    digest: str

    def check(self) -> None:
        """Raises ValueError if a value has another type than it should have."""
        texts = [self.pool, self.loss, self.rule, self.surrogate, self.digest]
        for names in (self.models, self.classes):
            if not isinstance(names, list):
                raise ValueError("a value has an unexpected type")
            texts += names
        numbers = isinstance(self.uniform, int | float) and isinstance(self.seed, int)
        if not numbers or not all(isinstance(text, str) for text in texts):
            raise ValueError("a value has an unexpected type")

    def change_paths(self, change: Callable[[str], str]) -> "SessionSettings":
        """Returns the settings with other paths."""
        return replace(self, pool=change(self.pool), models=[*map(change, self.models)])

    def class_name(self, label: int) -> str:
        """Returns the name of a label, as a person types it."""
        return UNKNOWN if label == NO_LABEL else self.classes[label]

    @property
    def name(self) -> str:
        """A letter and 7 hex digits, which every csv of the session contains; no spreadsheet takes
        it for a number."""
        return "s" + hashlib.sha256(encode(vars(self)).encode()).hexdigest()[:7]


def from_session(path: str, directory: Path) -> str:
    """Returns an absolute path as one from a session's directory, for its files, which are passed
    on; any other name, that of a data set, as it is.
    """
    return make_relative(path, directory) if os.path.isabs(path) else path


def show_path(path: str) -> str:
    """Returns an absolute path as a person here would type it; any other name as it is."""
    here = Path.cwd()
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path


_ARRAYS = ("features", "images", "ensemble", "outcomes")
_EXAMPLES = ("training", "calibration")


def digest(ids: Sequence[str], predictions: np.ndarray) -> str:
    """Returns 16 hex digits that identify samples and the models' probabilities on them."""
    content = hashlib.sha256("\n".join(ids).encode())
    content.update(np.ascontiguousarray(predictions, np.float64).tobytes())
    return content.hexdigest()[:16]


@dataclass(frozen=True)
class PoolPart:
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


def write_pool_part(directory: Path, number: int, pool_part: PoolPart) -> None:
    """Writes generation-NUMBER of the session in a directory: all of it, or nothing.

    Args:
      directory: of the session.
      number: from 0.
      pool_part: the samples.
    """
    ids, data = list(pool_part.ids), pool_part.data
    about = {
        "pool": from_session(pool_part.pool, directory),
        "ids": ids,
        "digest": pool_part.digest,
    }
    files = {
        "ids.json": json.dumps(about).encode(),
        "models.npy": _array_bytes(pool_part.predictions),
    }
    if pool_part.hashes is not None:
        files["pixel-hashes.npy"] = _array_bytes(pool_part.hashes)
    for name in _ARRAYS:
        if (array := getattr(data, name)) is not None:
            files[f"pool-{name}.npy"] = _array_bytes(array)
    for part in _EXAMPLES:
        examples = getattr(data, part)
        for field in fields(LabelledSamples):
            if examples is not None and (array := getattr(examples, field.name)) is not None:
                files[f"{part}-{field.name}.npy"] = _array_bytes(array)
    write_directory(directory / f"generation-{number}", files)


def read_pool_part(folder: Path, first: int) -> PoolPart:
    """Returns the samples of a folder; large arrays stay on disk.

    Args:
      folder: DIRECTORY/generation-NUMBER.
      first: number of samples in the pool parts before it.

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
        ids, hashes = about["ids"], array("pixel-hashes")
        pool = locate(about["pool"], folder.parent)
        if not isinstance(pool, str) or predictions.dtype.kind != "f":
            raise ValueError("a value has an unexpected type")
        if hashes is not None and (hashes.shape != (len(ids),) or hashes.dtype.kind != "S"):
            raise ValueError("its pixel hashes do not fit its ids")
        data = SurrogateData(predictions[0], **arrays, **examples)
        pool_part = PoolPart(pool, ids, predictions, data, hashes, first)
        if pool_part.digest != about["digest"]:
            raise ValueError("the models' probabilities or the ids are not those it began with")
    except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
        raise BadInput(f"{folder}: damaged ({error}).") from None
    return pool_part


def _array_bytes(array: np.ndarray) -> bytes:
    with io.BytesIO() as buffer:
        np.save(buffer, np.asarray(array), allow_pickle=False)
        return buffer.getvalue()


_ROUNDING = 1e-9


@dataclass(frozen=True)
class Draw:
    """Samples of one pool part that were drawn together, in order.

    Attributes:
      round: number of the `next` that drew them, from 1.
      labels: number of labels that were recorded then.
      pool_part: number of the pool part.
      samples: int64[b], positions among all samples.
      probabilities: float64[b], given the samples of this part that were drawn before.
      predicted, remaining: float64[models, b], see `LabelledDraws`, of this part's samples.
    """

    round: int
    labels: int
    pool_part: int
    samples: np.ndarray
    probabilities: np.ndarray
    predicted: np.ndarray
    remaining: np.ndarray

    @property
    def asked(self) -> list[int]:
        """The samples' positions."""
        return self.samples.tolist()

    @property
    def answered(self) -> int:
        """Number of labels that were recorded then."""
        return self.labels


def parse_draws(line: Mapping[str, Any], pool_parts: Sequence[PoolPart]) -> list[Draw]:
    """Returns the draws of a line of their file; ValueError or the like if it is damaged."""
    return [_make_draw(line, each, pool_parts) for each in line["draws"]]


def _make_draw(
    line: Mapping[str, Any], values: dict[str, Any], pool_parts: Sequence[PoolPart]
) -> Draw:
    number, labels = line["round"], line["labels"]
    pool_part = pool_parts[values["generation"]]
    names = ("probabilities", "predicted", "remaining")
    arrays = {name: np.array(values[name], np.float64) for name in names}
    samples = np.array(values["samples"], np.int64)
    shapes = [samples.shape, *[(len(pool_part.predictions), samples.size)] * 2]
    if not pool_part.contains(samples).all():
        raise ValueError("it contains samples of another part of the pool")
    if not isinstance(number, int) or not isinstance(labels, int):
        raise ValueError("a number has an unexpected type")
    if [array.shape for array in arrays.values()] != shapes:
        raise ValueError("its lists do not fit each other")
    probabilities = arrays["probabilities"]
    for probability in probabilities[~((probabilities > 0) & (probabilities <= 1 + _ROUNDING))]:
        raise ValueError(f"{probability} is not the probability of a draw")
    for name in names[1:]:
        if not np.isfinite(arrays[name]).all():
            raise ValueError(f"{name}: not all are finite numbers")
    return Draw(number, labels, values["generation"], samples, **arrays)


def parse_labels(
    line: Mapping[str, Any], positions: Mapping[str, int], classes: int
) -> dict[int, int]:
    """Returns the class of each sample of a line by its position, `NO_LABEL` of one that nobody can
    label; ValueError or the like if it is damaged.

    Args:
      line: of the file of labels.
      positions: of all samples, by id.
      classes: their number.
    """
    result: dict[int, int] = {}
    for sample, label in line["labels"].items():
        if label is None:
            label = NO_LABEL
        elif not isinstance(label, int) or label not in range(classes):
            raise ValueError(f"there is no class {label!r}")
        if sample not in positions:
            raise ValueError(f"there is no sample {sample!r}")
        result[positions[sample]] = label
    return result
