"""What identifies a labelling session."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nevis_stream.queries.oracle import NO_LABEL
from nevis_stream.storage.record import encode

UNKNOWN = "?"
"""What a person types where nobody can tell the class."""
SETTINGS, STUDY = "session.json", "study.json"  # what identifies a session, and a study


@dataclass(frozen=True)
class SessionSettings:
    """What identifies a session.

    Attributes:
      pool: where the images are, see `pools.absolute`.
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


def digest(ids: Sequence[str], predictions: np.ndarray) -> str:
    """Returns 16 hex digits that identify samples and the models' probabilities on them."""
    content = hashlib.sha256("\n".join(ids).encode())
    content.update(np.ascontiguousarray(predictions, np.float64).tobytes())
    return content.hexdigest()[:16]
