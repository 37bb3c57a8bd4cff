"""Acquisition functions, which score r candidates, higher where a label is worth more; and two
ways to choose samples by scores: the highest, or random draws whose probabilities are kept.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from nevis_stream.active_testing.pool import Candidates, entropy
from nevis_stream.array_types import Float, Int
from nevis_stream.errors import BadInput


@dataclass(frozen=True)
class AcquisitionFunction:
    """Scores candidates.

    Attributes:
      about: one line for people.
      scores: takes candidates, and returns float64[r].
    """

    about: str
    scores: Callable[[Candidates], np.ndarray]

    def __call__(self, candidates: Candidates) -> np.ndarray:
        """Returns the scores, float64[r]."""
        return self.scores(candidates)


def bald(candidates: Candidates) -> np.ndarray:
    """Returns H[mean_e p_e] - mean_e H[p_e] in nats, float64[r].

    Source: Houlsby et al. 2011; ASE paper, equation 5.
    """
    return candidates.disagreement.sum(axis=1)


def expected_loss(candidates: Candidates) -> np.ndarray:
    """Returns sum_y p̄(y given x) abs(L(f(x), y)), float64[r].

    If the surrogate is the tested model itself (one member), this is the self-surrogate variant.
    Source: Active Testing, section 4; ASE paper, equation 3.
    """
    return (candidates.mean * abs(candidates.losses)).sum(axis=1)


def model_entropy(candidates: Candidates) -> np.ndarray:
    """Returns -sum_y f(y|x) log f(y|x) in nats, float64[r]."""
    return entropy(candidates.predictions)


def rms_loss(candidates: Candidates) -> np.ndarray:
    """Returns sqrt(sum_y p̄(y|x) L(f(x), y)²), float64[r].

    Draws in proportion to it minimise sum_i E[L_i²] / q_i, so weighted sums of losses have the
    least variance if the surrogate is right. A sample that errs with a probability of 1% gets a
    tenth of the chance of one that surely errs, and with `expected_loss` a hundredth: this rule
    forgives a surrogate that is too sure. Source: for other estimators Sawade et al., Active Risk
    Estimation, ICML 2010, and Zrnic and Candès 2024.
    """
    return np.sqrt((candidates.mean * candidates.losses**2).sum(axis=1))


def surrogate_entropy(candidates: Candidates) -> np.ndarray:
    """Returns -sum_y p̄(y|x) log p̄(y|x) in nats, float64[r]."""
    return entropy(candidates.mean)


def uniform(candidates: Candidates) -> np.ndarray:
    """Returns 1 for every candidate, float64[r]."""
    return np.ones(len(candidates.losses))


def xwed(candidates: Candidates) -> np.ndarray:
    """Returns the disagreement of the members on each class, weighted by the loss that the model
    would have, float64[r].

    With a constant loss k it is k times BALD. Losses of compared models count by their size.
    Source: ASE paper, equation 6.
    """
    return (abs(candidates.losses) * candidates.disagreement).sum(axis=1)


RULES: Mapping[str, AcquisitionFunction] = {
    "bald": AcquisitionFunction(
        "BALD, the mutual information of the label and the surrogate's member.", bald
    ),
    "expected_loss": AcquisitionFunction("The loss that the surrogate expects.", expected_loss),
    "model_entropy": AcquisitionFunction(
        "The tested model's own entropy, which needs no surrogate.", model_entropy
    ),
    "rms_loss": AcquisitionFunction(
        "The root mean square of the loss that the surrogate expects.", rms_loss
    ),
    "surrogate_entropy": AcquisitionFunction(
        "The entropy of the surrogate's mean.", surrogate_entropy
    ),
    "uniform": AcquisitionFunction("Every sample alike: plain random testing.", uniform),
    "xwed": AcquisitionFunction("XWED, expected weighted disagreement.", xwed),
}
"""By name."""


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
