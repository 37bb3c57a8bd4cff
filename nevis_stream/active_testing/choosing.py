"""From scores to samples: the highest ones, or random draws whose probabilities are kept."""

from dataclasses import dataclass

import numpy as np

from nevis_stream.array_types import Float, Int
from nevis_stream.errors import BadInput

NOTHING = 1e-12  # scores that are all below this count as 0


def check_scores(scores: np.ndarray) -> np.ndarray:
    """Returns scores as float64[r] if all are finite: what is undefined is no score of 0.

    Raises:
      BadInput: one is not.
    """
    scores = np.asarray(scores, np.float64)
    for row in np.flatnonzero(~np.isfinite(scores))[:1]:
        raise BadInput(
            f"the acquisition score of sample {row} of {len(scores)} that are left is {scores[row]}"
            " (an infinite loss beside a probability of 0 gives such scores); it must be finite."
        )
    return scores


@dataclass(frozen=True)
class TopK:
    """Takes the highest scores; of equal ones the first sample.

    No estimator that weights by probabilities can be used with it.
    """

    def __call__(
        self, scores: Float[np.ndarray, " left"], count: int, random: np.random.Generator
    ) -> tuple[Int[np.ndarray, " count"], None]:
        """Returns positions int64[count], and None for their probabilities."""
        return np.argsort(-check_scores(scores), kind="stable")[:count], None


@dataclass(frozen=True)
class ProportionalSampling:
    """Draws in proportion to the scores, one sample after the other, without replacement.

    Attributes:
      quantile: scores below this quantile of all are lifted to it; 0 for none. The ASE paper's code
        has 0.1 for expected losses of a separate surrogate.
      clip: each probability is at least clip / r, before they are divided by their sum; 0 for none.
        The paper's ResNet runs have 0.2.
      uniform: fraction of a uniform draw that is mixed in (a defensive mixture). At 0, samples with
        a score of 0 are never drawn, which biases weighted estimates. It bounds the weights: no
        sample represents more than 1 / uniform times its part of the pool. With 0.1 intervals were
        too short where the surrogate was sure of wrong labels (docs/decisions/0050).
    """

    quantile: float = 0.0
    clip: float = 0.0
    uniform: float = 0.5

    def __post_init__(self) -> None:
        for name in ("quantile", "clip", "uniform"):
            if not 0 <= getattr(self, name) <= 1:
                raise BadInput(f"{name}={getattr(self, name)}: expected a number from 0 to 1.")

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Returns the probabilities of one draw, float64[r].

        If a score is negative, the smallest becomes 0. If all are 0, the draw is uniform.
        """
        scores = check_scores(scores)
        scores = scores - min(scores.min(), 0)
        if self.quantile:
            scores = np.maximum(scores, np.quantile(scores, self.quantile))
        r = len(scores)
        p = np.full(r, 1 / r) if scores.max() < NOTHING else scores / scores.sum()
        p = np.maximum(p, self.clip / r)
        return self.uniform / r + (1 - self.uniform) * p / p.sum()

    def __call__(
        self, scores: np.ndarray, count: int, random: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Returns positions int64[count] and the probability of each, float64[count], given those
        that were drawn before it.
        """
        p = self.probabilities(scores)
        positions, probabilities = np.empty(count, np.int64), np.empty(count)
        left = np.ones(len(p), bool)
        for k in range(count):
            if p.sum() <= 0:  # the rest has no probability: all alike
                p = left.astype(np.float64)
            p = p / p.sum()
            positions[k] = random.choice(len(p), p=p)
            probabilities[k] = p[positions[k]]
            p[positions[k]], left[positions[k]] = 0, False
        return positions, probabilities
