"""Acquisition functions: scores of r candidates, larger for labels that are worth more."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from nevis_stream.active_testing.pool import Candidates, entropy


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
    """Returns sum_y p̄(y|x) |L(f(x), y)|, float64[r].

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
