"""The files of a labelling session: its settings, and the lines of its two logs, with what is wrong
with a damaged one.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.active_testing.labelling.pools import Generation
from nevis_stream.queries.oracle import NO_LABEL
from nevis_stream.queries.session_log import damage, read_lines
from nevis_stream.storage.record import encode

UNKNOWN = "?"
"""What a person types where nobody can tell the class."""
SETTINGS, STUDY = "session.json", "study.json"  # what identifies a session, and a study


@dataclass(frozen=True)
class SessionSettings:
    """What identifies a session.

    Attributes:
      pool: where the images are, see `pools.make_absolute`.
      models: absolute paths of the tested models.
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

    def class_name(self, label: int) -> str:
        """Returns the name of a label, as a person types it."""
        return UNKNOWN if label == NO_LABEL else self.classes[label]

    @property
    def name(self) -> str:
        """A letter and 7 hex digits, which every csv of the session contains; no spreadsheet takes
        it for a number."""
        return "s" + hashlib.sha256(encode(vars(self)).encode()).hexdigest()[:7]


_ROUNDING = 1e-9


@dataclass(frozen=True)
class Draw:
    """Samples of one generation that were drawn together, in order.

    Attributes:
      round: number of the `next` that drew them, from 1.
      labels: number of labels that were recorded then.
      generation: its number.
      samples: int64[b], positions among all samples.
      probabilities: float64[b], given the samples of this generation that were drawn before.
      predicted, remaining: float64[models, b], see `LabelledDraws`, of this generation's samples.
    """

    round: int
    labels: int
    generation: int
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


def recorded_draws(file: Path, generations: Sequence[Generation]) -> list[Draw]:
    """Returns all draws, in order.

    Raises:
      BadInput: the file is damaged.
    """
    draws: list[Draw] = []
    drawn: set[int] = set()
    for number, line in enumerate(read_lines(file), start=1):
        with damage(file, number):
            for each in line["draws"]:
                draws.append(_draw(line, each, generations))
                before = len(drawn)
                drawn.update(draws[-1].samples.tolist())
                if len(drawn) - before != len(draws[-1].samples):
                    raise ValueError("it draws a sample a second time")
    return draws


def _draw(line: dict[str, Any], values: dict[str, Any], generations: Sequence[Generation]) -> Draw:
    number, labels = line["round"], line["labels"]
    generation = generations[values["generation"]]
    names = ("probabilities", "predicted", "remaining")
    arrays = {name: np.array(values[name], np.float64) for name in names}
    samples = np.array(values["samples"], np.int64)
    shapes = [samples.shape, *[(len(generation.predictions), samples.size)] * 2]
    if not generation.contains(samples).all():
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


def recorded_labels(file: Path, positions: Mapping[str, int], classes: int) -> dict[int, int]:
    """Returns the class of each labelled sample by its position, `NO_LABEL` of one that nobody can
    label; corrections replace.

    Args:
      file: may be missing.
      positions: of all samples, by id.
      classes: their number.

    Raises:
      BadInput: the file is damaged.
    """
    result: dict[int, int] = {}
    for number, line in enumerate(read_lines(file), start=1):
        with damage(file, number):
            for sample, label in line["labels"].items():
                if label is None:
                    label = NO_LABEL
                elif not isinstance(label, int) or label not in range(classes):
                    raise ValueError(f"there is no class {label!r}")
                if sample not in positions:
                    raise ValueError(f"there is no sample {sample!r}")
                result[positions[sample]] = label
    return result
