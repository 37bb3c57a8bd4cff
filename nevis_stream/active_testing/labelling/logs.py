"""The lines of a session's two logs, and what is wrong with a damaged one."""

import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.active_testing.labelling.pool_parts import Generation
from nevis_stream.errors import BadInput
from nevis_stream.queries.oracle import NO_LABEL
from nevis_stream.storage import checked_lines

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


def read_lines(file: Path) -> list[dict[str, Any]]:
    """Returns the whole lines of a file; what a kill left of the last one is not counted.

    Raises:
      BadInput: a line is not as it was written.
    """
    lines = checked_lines.read(file)
    for line in lines:
        if line.problem:
            raise BadInput(
                f"{file}, line {line.number}: damaged ({line.problem}). Put a copy of the file"
                " back."
            )
    if lines and not lines[-1].checked:
        warnings.warn(
            f"{file}: an earlier version wrote it, without checksums, so that a changed number"
            " would not be noticed; from the next line on it has them.",
            stacklevel=2,
        )
    return [line.values for line in lines]


@contextlib.contextmanager
def damage(file: Path, line: int) -> Iterator[None]:
    """Turns the errors of reading a line that is not as it was written into a message."""
    try:
        yield
    except BadInput:
        raise  # of another file
    except (
        *(ValueError, KeyError, TypeError, IndexError, AttributeError),
        *(OverflowError, RecursionError),
    ) as error:
        raise BadInput(f"{file}, line {line}: damaged ({error}).") from None


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


def _draw(line, values, generations) -> Draw:
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
