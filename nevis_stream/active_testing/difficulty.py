"""Difficulty: whether the tested model errs on a sample, from what known models did there.

A logistic regression predicts the tested model's errors from a base surrogate's probability of an
error and from the known models' outcomes. Its prior is the base surrogate alone, so the outcomes
count only as far as the bought labels support them: known models that share no weakness with the
tested one change little. It is fitted by Newton's method; the members are draws from Laplace's
approximation of the posterior.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from nevis_stream.active_testing.material import Material
from nevis_stream.active_testing.testing import Members, Surrogate
from nevis_stream.dynamic_evaluation.asking import Answers, Cells, Cost
from nevis_stream.seeds import generator

MEMBERS = 10
_BASE_DEVIATION = 0.5  # of the base's coefficient around 1
_BIAS_DEVIATION = 0.5
_DIFFICULTY_DEVIATION = 1.0  # of the coefficient of the known models' mean error
_OUTCOMES_DEVIATION = 0.5  # of the coefficients of single models, together
_NEWTON_STEPS = 30
_LARGEST_WEIGHT = 5.0  # times the weight of a uniform draw
_FEWEST_FOLDED = 20  # labels; with fewer, half of them teach the base too little
UNCOUNTED = frozenset({"regression on known models' outcomes"})


@dataclass(frozen=True)
class DifficultySurrogate:
    """A surrogate of c classes from a base surrogate and the known models' outcomes.

    Attributes:
      material: with outcomes.
      base: gives the probability of an error, and the classes that are possible if there is one.
      trained: whether the base learns from bought labels; then what it says about those is
        replaced by what it says if it learned from the other half of them only.
      spread: share of the classes of observed errors in the distribution over classes if there is
        an error; the rest is the base's.
      seed: of the draws.
    """

    material: Material
    base: Surrogate
    trained: bool
    spread: float
    seed: int

    def __call__(self, answers: Answers) -> Members:
        """Returns the members' probabilities, float64[10, n, c]."""
        samples, labels = answers.samples[0], answers.values[0]
        predicted = np.asarray(self.material.predictions).argmax(axis=1)
        belief = self.base(answers)
        members, cost = np.asarray(belief.probabilities, np.float64), belief.cost
        errors = _error(members.mean(axis=0), predicted)
        unseen = errors[samples]
        if self.trained and len(samples) >= _FEWEST_FOLDED:
            unseen, more = self._folded(answers, predicted)
            cost += more
        known = _known_inputs(self.material.outcomes)
        wrong = (labels != predicted[samples]).astype(np.float64)
        weights = _weights(answers, len(predicted))
        mean, covariance = _fit(_inputs(unseen, known[samples]), wrong, weights)
        draws = generator(self.seed, "coefficients").standard_normal((MEMBERS, len(mean)))
        coefficients = mean + draws @ np.linalg.cholesky(covariance).T
        inputs = _inputs(errors, known)
        frequencies = np.bincount(labels[wrong > 0], minlength=members.shape[2]) + 1.0
        probabilities = np.empty((MEMBERS, *members.shape[1:]))
        for number in range(MEMBERS):
            probabilities[number] = self._distribution(
                expit(inputs @ coefficients[number]),
                members[number % len(members)],
                frequencies,
                predicted,
            )
        return Members(probabilities, cost + Cost(uncounted=UNCOUNTED))

    def _folded(self, answers, predicted):
        """Returns each bought label's probability of an error by a base that did not see it."""
        count = answers.values.size
        halves = np.array_split(generator(self.seed, "halves", count).permutation(count), 2)
        errors, cost = np.empty(count), Cost()
        for left_out, kept in (halves, halves[::-1]):
            cells = Cells(answers.samples[:, np.sort(kept)])  # the base needs no probabilities
            belief = self.base(Answers(cells, answers.values[:, np.sort(kept)]))
            rows = answers.samples[0, left_out]
            mean = np.asarray(belief.probabilities[:, rows], np.float64).mean(axis=0)
            errors[left_out] = _error(mean, predicted[rows])
            cost += belief.cost
        return errors, cost

    def _distribution(self, wrong, base, frequencies, predicted):
        rows = np.arange(len(base))
        others = np.broadcast_to(frequencies / frequencies.sum(), base.shape).copy()
        possible = base + 1e-9
        for each in (others, possible):
            each[rows, predicted] = 0
            each /= each.sum(axis=1, keepdims=True)
        both = self.spread * others + (1 - self.spread) * possible
        both *= wrong[:, None]
        both[rows, predicted] = 1 - wrong
        return both


def _error(probabilities, predicted):
    return 1 - probabilities[np.arange(len(predicted)), predicted]


def _known_inputs(outcomes):
    """Returns the known models' mean error as a logit, and each one's error, float64[n, 1 + k]."""
    errors = 1 - np.asarray(outcomes, np.float64).T
    models = errors.shape[1]
    mean = logit((errors.sum(axis=1) + 0.5) / (models + 1))
    scale = _OUTCOMES_DEVIATION / _DIFFICULTY_DEVIATION / np.sqrt(models)
    return np.column_stack([(mean - mean.mean()) / (mean.std() + 1e-9), (errors - 0.5) * scale])


def _inputs(errors, known):
    base = logit(np.clip(errors, 1e-3, 1 - 1e-3))
    return np.column_stack([np.ones(len(base)), base, known])


def _weights(answers, n):
    """Returns how much each bought label counts, with a mean of 1: a sample that was likely to be
    drawn counts less, so that the regression is right on average over the pool, not over the hard
    samples that were drawn.
    """
    count, probabilities = answers.values.size, answers.cells.probabilities
    if probabilities is None or not count:
        return np.ones(count)
    weights = np.minimum(1 / ((n - np.arange(count)) * probabilities[0]), _LARGEST_WEIGHT)
    return weights / weights.mean()


def _fit(inputs, wrong, weights):
    """Returns the posterior's mode and covariance."""
    width = inputs.shape[1]
    prior = np.zeros(width)
    prior[1] = 1
    deviations = np.full(width, _DIFFICULTY_DEVIATION)
    deviations[:2] = _BIAS_DEVIATION, _BASE_DEVIATION
    precision = np.diag(deviations**-2.0)
    value = prior.copy()
    for _ in range(_NEWTON_STEPS):
        chance = expit(inputs @ value)
        gradient = inputs.T @ (weights * (wrong - chance)) - precision @ (value - prior)
        hessian = (inputs * (weights * chance * (1 - chance))[:, None]).T @ inputs + precision
        step = np.linalg.solve(hessian, gradient)
        value = value + step * min(1, 2 / max(np.abs(step).max(), 1e-12))
        if np.abs(step).max() < 1e-9:
            break
    return value, np.linalg.inv(hessian)
