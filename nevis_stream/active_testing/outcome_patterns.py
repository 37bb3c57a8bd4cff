"""Classes from known models' outcomes: a class has a pattern of models that err on it.

A base surrogate says which classes a sample may have. A model of the outcomes of the whole pool,
labelled or not, says which of them fits what the known models did there: each known model errs on a
class at a rate of its own, and on a hard sample more often. Rates, hardness and the frequencies of
the classes are estimated by expectation-maximisation that starts from the base's probabilities;
bought labels are certain.

So models that were trained without a class mark all its samples, of which the base, with few labels
of that class, finds some only; and a class that is more frequent in the pool than among the base's
examples gets its fraction.

Sources: Dawid and Skene, Maximum Likelihood Estimation of Observer Error-Rates Using the EM
Algorithm, Applied Statistics 1979, with outcomes instead of answers; for the frequencies Saerens et
al., Adjusting the Outputs of a Classifier to New a Priori Probabilities, Neural Computation 2002.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from nevis_stream.active_testing.testing import EnsemblePredictions, Surrogate
from nevis_stream.array_types import Float, Int
from nevis_stream.queries.oracle import Cost, Responses

PerClass = Float[np.ndarray, "samples classes"]

UNCOUNTED = frozenset({"EM on known models' outcomes"})
_HARD = 0.15  # fraction of hard samples in every class
_HARD_RATE = 0.6  # at which a model errs on a hard sample that it would get right if it were easy
_ITERATIONS = 8
_INDEPENDENT = (
    12  # known models; more repeat each other, since hardness comes in more than 2 grades
)
_SAMPLES = 5.0  # that the expected error rate of a model counts for, in each class
_LEAST_RATE = 5e-3
_LEAST_FREQUENCY = 1e-3
_LEAST = 1e-4  # added to the base's probabilities: it knows classes no better than that


@dataclass(frozen=True)
class OutcomePatterns:
    """A surrogate of c classes: a base surrogate's members, each updated by the outcomes.

    Attributes:
      base: the base surrogate.
      outcomes: float[k, n], 1 where a known model is right.
    """

    base: Surrogate
    outcomes: np.ndarray

    def __call__(self, answers: Responses) -> EnsemblePredictions:
        """Returns the updated probabilities, float64[e, n, c]."""
        belief = self.base(answers)
        members = np.asarray(belief.probabilities, np.float64)
        wrong = 1 - np.asarray(self.outcomes, np.float64).T
        evidence = class_evidence(
            members.mean(axis=0), wrong, answers.samples[0], answers.values[0]
        )
        updated = softmax(np.log(members + _LEAST) + evidence, axis=2)
        return EnsemblePredictions(updated, belief.cost + Cost(uncounted=UNCOUNTED))


def class_evidence(
    belief: PerClass,
    wrong: Float[np.ndarray, "samples models"],
    samples: Int[np.ndarray, " labels"],
    labels: Int[np.ndarray, " labels"],
) -> PerClass:
    """Returns what the outcomes add to the logarithms of the classes' probabilities, float64[n, c].

    Args:
      belief: float64[n, c], probabilities without the outcomes.
      wrong: float64[n, k], 1 where a known model errs.
      samples: int[M], the labelled samples.
      labels: int[M], their classes.
    """

    def with_labels(logits: PerClass) -> PerClass:
        classes = softmax(logits, axis=1)
        classes[samples] = 0
        classes[samples, labels] = 1
        return classes

    prior = np.log(belief + _LEAST)
    classes, easy = with_labels(prior), np.ones_like(belief)
    expected = wrong.mean(axis=0) / 2  # hard samples cause the other half, about
    evidence = np.zeros_like(belief)
    for _ in range(_ITERATIONS):
        weights = classes * easy
        rates = weights.T @ wrong + _SAMPLES * expected
        rates = rates / (weights.sum(axis=0)[:, None] + _SAMPLES)
        rates = np.clip(rates, _LEAST_RATE, 1 - _LEAST_RATE)
        if_easy = np.log(1 - _HARD) + _log_likelihood(wrong, rates)
        if_hard = np.log(_HARD) + _log_likelihood(wrong, 1 - (1 - rates) * (1 - _HARD_RATE))
        likelihood = np.logaddexp(if_easy, if_hard)
        easy = np.exp(if_easy - likelihood)
        frequencies = np.log(classes.mean(axis=0) + _LEAST_FREQUENCY)
        frequencies -= np.log(belief.mean(axis=0) + _LEAST_FREQUENCY)
        evidence = likelihood + frequencies
        classes = with_labels(prior + evidence)
    return evidence


def _log_likelihood(
    wrong: Float[np.ndarray, "samples models"], rates: Float[np.ndarray, "classes models"]
) -> PerClass:
    """Returns float64[n, c] of outcomes [n, k] at the rates [c, k]; of many models, as of fewer."""
    weight = min(1, _INDEPENDENT / wrong.shape[1])
    return weight * (wrong @ np.log(rates).T + (1 - wrong) @ np.log1p(-rates).T)
