"""The base of all surrogates."""

from abc import ABC, abstractmethod

import numpy as np

from nevis_stream.active_testing.surrogate_data import LabelledSamples, SurrogateData
from nevis_stream.active_testing.testing import Surrogate
from nevis_stream.array_types import Float, Int
from nevis_stream.errors import BadInput
from nevis_stream.queries.oracle import Responses

WORDS = {
    "features": "features of the pool",
    "images": "images of the pool",
    "ensemble": "other models of the run (train with --config.keep=all, or give --run_dir)",
    "outcomes": "outcomes of known models (an evaluation cache, --cache=…)",
}
"""What people call an attribute of `SurrogateData`."""


class SurrogateBuilder(ABC):
    """Builds surrogates from what is known before any label.

    Attributes:
      about: one line for people.
      needs: names of the attributes of `SurrogateData` that must be there.
      retrained: whether it learns from bought labels.
    """

    about = ""
    needs: tuple[str, ...] = ()
    retrained = True

    def lacks(self, material: SurrogateData) -> str:
        """Returns what is missing, in words; empty if nothing is."""
        missing = [WORDS[name] for name in self.needs if getattr(material, name) is None]
        return " and ".join(missing)

    def check(self, name: str, material: SurrogateData) -> None:
        """Raises BadInput if something that the surrogate needs is missing."""
        if missing := self.lacks(material):
            raise BadInput(f"the surrogate {name!r} needs {missing}.")

    @abstractmethod
    def build(self, material: SurrogateData, seed: int) -> Surrogate:
        """Returns the surrogate. It depends on the material, the seed and the bought labels alone,
        not on how often it was called, so that a stopped test can be continued.
        """


def calibration_labels(
    calibration: LabelledSamples | None,
    answers: Responses,
    name: str,
    pool: Float[np.ndarray, "members samples classes"],
) -> tuple[Float[np.ndarray, "members labels classes"], Int[np.ndarray, " labels"]]:
    """Returns probabilities [e, k, c] and labels int[k] of all samples on which a surrogate that is
    not trained here can be calibrated: the examples and the bought labels.

    Args:
      calibration: examples, or None.
      answers: the bought labels.
      name: of the attribute of `LabelledSamples` with the probabilities.
      pool: the probabilities of the pool, [e, n, c].
    """
    parts, labels = [pool[:, answers.samples[0]]], [answers.values[0]]
    known = None if calibration is None else getattr(calibration, name)
    if known is not None:
        parts.append(known if known.ndim == 3 else known[None])
        labels.append(calibration.labels)
    return np.concatenate(parts, axis=1), np.concatenate(labels).astype(int)
