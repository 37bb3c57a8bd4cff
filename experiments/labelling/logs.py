"""The lines of a session's two logs, and what is wrong with a damaged one."""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.errors import BadInput


@dataclass(frozen=True)
class Draw:
    """Samples of one generation that were drawn together, in order.

    Attributes:
      round: number of the `next` that drew them, from 1.
      labels: number of labels that were recorded then.
      generation: its number.
      samples: int64[b], positions among all samples.
      probabilities: float64[b], given the samples of this generation that were drawn before.
      predicted, remaining: float64[models, b], see `Evidence`, of this generation's samples.
    """

    round: int
    labels: int
    generation: int
    samples: np.ndarray
    probabilities: np.ndarray
    predicted: np.ndarray
    remaining: np.ndarray


def read_lines(file: Path) -> list[dict[str, Any]]:
    """Returns the whole lines of a file; what a kill left of the last one is not counted."""
    if not file.exists():
        return []
    content = file.read_bytes()
    lines = []
    for number, line in enumerate(content[: content.rfind(b"\n") + 1].splitlines(), start=1):
        with damage(file, number):
            lines.append(json.loads(line.decode()))
    return lines


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
