"""Surrogates of known models' outcomes, alone or joined with heads on features.

*Difficulty* is whether the tested model errs on a sample, from what known models did there. A
logistic regression predicts the tested model's errors from a base surrogate's probability of an
error and from the known models' outcomes, which count only as far as the bought labels support
them. It is fitted by Newton's method; the members are draws from Laplace's approximation of the
posterior, each with its mirror image, so that their mean is the posterior's but for curvature.
Where the tested model errs, the class follows the base surrogate, with a factor for each class and
a temperature that are fitted to the observed errors (vector scaling: Guo et al., On Calibration of
Modern Neural Networks, ICML 2017). A class that the base hardly knows, since few labels so far are
of it, would otherwise get too little.

*Patterns*: a class has a pattern of models that err on it. A base surrogate says which classes a
sample may have. A model of the outcomes of the whole pool, labelled or not, says which of them fits
what the known models did there: each known model errs on a class at a rate of its own, and on a
hard sample more often. Rates, hardness and the frequencies of the classes are estimated by
expectation-maximisation that starts from the base's probabilities; bought labels are certain. So
models that were trained without a class mark all its samples, of which the base, with few labels of
that class, finds some only; and a class that is more frequent in the pool than among the base's
examples gets its fraction. Sources: Dawid and Skene, Maximum Likelihood Estimation of Observer
Error-Rates Using the EM Algorithm, Applied Statistics 1979, with outcomes instead of answers; for
the frequencies Saerens et al., Adjusting the Outputs of a Classifier to New a Priori Probabilities,
Neural Computation 2002.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, logit, softmax

from nevis_stream.active_testing.surrogate import CalibratedModel, SurrogateBuilder, SurrogateData
from nevis_stream.active_testing.surrogates.networks import Heads
from nevis_stream.active_testing.testing import EnsemblePredictions, Surrogate
from nevis_stream.array_types import Float, Int
from nevis_stream.queries.oracle import Cost, Query, Responses
from nevis_stream.seeds import generator

PerClass = Float[np.ndarray, "samples classes"]

PAIRS = 8
_DIFFICULTY_DEVIATION = 1.0  # of the coefficient of the known models' mean error
_OUTCOMES_DEVIATION = 0.5  # of the coefficients of single models, together
_CLASS_DEVIATION = 2.0  # of the logarithm of a class's factor
_POWER_DEVIATION = 0.5  # of the inverse temperature around 1
_LEAST = 1e-3  # added to the base's probabilities: it knows classes no better than that
_NEWTON_STEPS = 30
_FEWEST_FOLDED = 20  # labels; with fewer, half of them teach the base too little
_REGRESSION = frozenset({"regression on known models' outcomes"})


@dataclass(frozen=True)
class Prior:
    """What is expected of the regression before any label.

    Attributes:
      bias: standard deviation of the intercept around 0.
      base: standard deviation of the base's coefficient around 1.
      difficulty: coefficient of the known models' mean error, per standard deviation of that.
    """

    bias: float
    base: float
    difficulty: float


UNINFORMED = Prior(bias=0.5, base=0.5, difficulty=1.0)
"""For a base that does not know the outcomes."""
INFORMED = Prior(bias=0.3, base=0.15, difficulty=0.0)
"""For a base that does: the outcomes correct it only as far as labels show that they should."""


@dataclass(frozen=True)
class DifficultySurrogate:
    """A surrogate of c classes from a base surrogate and the known models' outcomes.

    Attributes:
      data: with outcomes.
      base: gives the probability of an error, and the classes that are possible if there is one.
        It learns from bought labels; what it says about those is replaced by what it says if it
        learned from the other half of them only.
      prior: of the regression.
      seed: of the draws.
    """

    data: SurrogateData
    base: Surrogate
    prior: Prior
    seed: int

    def __call__(self, answers: Responses) -> EnsemblePredictions:
        """Returns the members' probabilities, float64[16, n, c]."""
        samples, labels = answers.samples[0], answers.values[0]
        predicted = np.asarray(self.data.predictions).argmax(axis=1)
        predictions = self.base(answers)
        members, cost = np.asarray(predictions.probabilities, np.float64), predictions.cost
        mean_member = members.mean(axis=0)
        errors, unseen = _error(mean_member, predicted), mean_member[samples]
        if len(samples) >= _FEWEST_FOLDED:
            unseen, more = self._fold(answers, members.shape[2])
            cost += more
        known = _known_inputs(self.data.outcomes)
        wrong = labels != predicted[samples]
        inputs = _inputs(_error(unseen, predicted[samples]), known[samples])
        mean, covariance = _fit(inputs, wrong.astype(float), self.prior)
        draws = generator(self.seed, "coefficients").standard_normal((PAIRS, len(mean)))
        away = draws @ np.linalg.cholesky(covariance).T
        coefficients = np.concatenate([mean + away, mean - away])
        inputs = _inputs(errors, known)
        power, factors = _fit_classes(
            _other_logits(unseen[wrong], predicted[samples][wrong]), labels[wrong]
        )
        probabilities = np.empty((len(coefficients), *mean_member.shape))
        rows = np.arange(len(predicted))
        for number, drawn in enumerate(coefficients):
            chance = expit(inputs @ drawn)
            logits = _other_logits(members[number % PAIRS % len(members)], predicted)
            probabilities[number] = chance[:, None] * softmax(power * logits + factors, axis=1)
            probabilities[number, rows, predicted] = 1 - chance
        return EnsemblePredictions(probabilities, cost + Cost(uncounted=_REGRESSION))

    def _fold(
        self, answers: Responses, classes: int
    ) -> tuple[Float[np.ndarray, "labels classes"], Cost]:
        """Returns for each bought label the probabilities of a base that did not see it,
        float64[M, c], and the cost.
        """
        count = answers.values.size
        halves = np.array_split(generator(self.seed, "halves", count).permutation(count), 2)
        unseen, cost = np.empty((count, classes)), Cost()
        for left_out, kept in (halves, halves[::-1]):
            query = Query(answers.samples[:, np.sort(kept)])  # the base needs no probabilities
            predictions = self.base(Responses(query, answers.values[:, np.sort(kept)]))
            rows = answers.samples[0, left_out]
            probabilities = np.asarray(predictions.probabilities[:, rows], np.float64)
            unseen[left_out] = probabilities.mean(axis=0)
            cost += predictions.cost
        return unseen, cost


def _error(
    probabilities: PerClass, predicted: Int[np.ndarray, " samples"]
) -> Float[np.ndarray, " samples"]:
    return 1 - probabilities[np.arange(len(predicted)), predicted]


def _known_inputs(outcomes: np.ndarray) -> Float[np.ndarray, "samples inputs"]:
    """Returns the known models' mean error as a logit, and each one's error, float64[n, 1 + k]."""
    errors = 1 - np.asarray(outcomes, np.float64).T
    models = errors.shape[1]
    mean = logit((errors.sum(axis=1) + 0.5) / (models + 1))
    scale = _OUTCOMES_DEVIATION / _DIFFICULTY_DEVIATION / np.sqrt(models)
    return np.column_stack([(mean - mean.mean()) / (mean.std() + 1e-9), (errors - 0.5) * scale])


def _inputs(
    errors: Float[np.ndarray, " samples"], known: Float[np.ndarray, "samples known"]
) -> Float[np.ndarray, "samples inputs"]:
    base = logit(np.clip(errors, 1e-3, 1 - 1e-3))
    return np.column_stack([np.ones(len(base)), base, known])


def _fit(
    inputs: Float[np.ndarray, "labels inputs"], wrong: np.ndarray, prior: Prior
) -> tuple[Float[np.ndarray, " inputs"], Float[np.ndarray, "inputs inputs"]]:
    """Returns the posterior's mode and covariance.

    All labels count the same: which samples were drawn depended on their inputs alone, and weights
    of 1 / probability would give the most to the samples that matter least.
    """
    width = inputs.shape[1]
    expected = np.zeros(width)
    expected[1:3] = 1, prior.difficulty
    deviations = np.full(width, _DIFFICULTY_DEVIATION)
    deviations[:2] = prior.bias, prior.base
    precision = np.diag(deviations**-2.0)
    value = expected.copy()
    for _ in range(_NEWTON_STEPS):
        chance = expit(inputs @ value)
        gradient = inputs.T @ (wrong - chance) - precision @ (value - expected)
        hessian = (inputs * (chance * (1 - chance))[:, None]).T @ inputs + precision
        step = np.linalg.solve(hessian, gradient)
        value = value + step * min(1, 2 / max(np.abs(step).max(), 1e-12))
        if np.abs(step).max() < 1e-9:
            break
    return value, np.linalg.inv(hessian)


def _other_logits(probabilities: PerClass, predicted: Int[np.ndarray, " samples"]) -> PerClass:
    """Returns the logarithms of the probabilities of all classes but the predicted one, float64[k,
    c], in which that one is -inf.
    """
    logits = np.log(probabilities + _LEAST)
    logits[np.arange(len(predicted)), predicted] = -np.inf
    return logits


def _fit_classes(
    logits: Float[np.ndarray, "errors classes"], labels: Int[np.ndarray, " errors"]
) -> tuple[float, Float[np.ndarray, " classes"]]:
    """Returns the power t and the factors' logarithms a, float64[c], of which softmax(t logits + a)
    fits the classes of k observed errors best, with normal priors.

    Args:
      logits: float64[k, c], see `_other_logits`.
      labels: int[k].
    """
    count, classes = logits.shape
    rows, finite = np.arange(count), np.where(np.isfinite(logits), logits, 0.0)

    def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
        power, factors = values[0], values[1:]
        log_probabilities = log_softmax(power * logits + factors, axis=1)
        residuals = -np.exp(log_probabilities)
        residuals[rows, labels] += 1
        away = (power - 1) / _POWER_DEVIATION, factors / _CLASS_DEVIATION
        gradient = np.append((residuals * finite).sum(), residuals.sum(axis=0))
        gradient -= np.append(away[0] / _POWER_DEVIATION, away[1] / _CLASS_DEVIATION)
        penalty = (away[0] ** 2 + (away[1] ** 2).sum()) / 2
        return penalty - log_probabilities[rows, labels].sum(), -gradient

    start = np.append(1.0, np.zeros(classes))
    bounds = [(0.05, None)] + [(None, None)] * classes
    best = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x
    return best[0], best[1:]


_EM = frozenset({"EM on known models' outcomes"})
_HARD = 0.15  # fraction of hard samples in every class
_HARD_RATE = 0.6  # at which a model errs on a hard sample that it would get right if it were easy
_ITERATIONS = 8
_INDEPENDENT = (
    12  # known models; more repeat each other, since hardness comes in more than 2 grades
)
_SAMPLES = 5.0  # that the expected error rate of a model counts for, in each class
_LEAST_RATE = 5e-3
_LEAST_FREQUENCY = 1e-3
_LEAST_PROBABILITY = 1e-4  # added to the base's probabilities: it knows classes no better than that


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
        predictions = self.base(answers)
        members = np.asarray(predictions.probabilities, np.float64)
        wrong = 1 - np.asarray(self.outcomes, np.float64).T
        evidence = compute_class_evidence(
            members.mean(axis=0), wrong, answers.samples[0], answers.values[0]
        )
        updated = softmax(np.log(members + _LEAST_PROBABILITY) + evidence, axis=2)
        return EnsemblePredictions(updated, predictions.cost + Cost(uncounted=_EM))


def compute_class_evidence(
    probabilities: PerClass,
    wrong: Float[np.ndarray, "samples models"],
    samples: Int[np.ndarray, " labels"],
    labels: Int[np.ndarray, " labels"],
) -> PerClass:
    """Returns what the outcomes add to the logarithms of the classes' probabilities, float64[n, c].

    Args:
      probabilities: float64[n, c], without the outcomes.
      wrong: float64[n, k], 1 where a known model errs.
      samples: int[M], the labelled samples.
      labels: int[M], their classes.
    """

    def with_labels(logits: PerClass) -> PerClass:
        classes = softmax(logits, axis=1)
        classes[samples] = 0
        classes[samples, labels] = 1
        return classes

    prior = np.log(probabilities + _LEAST_PROBABILITY)
    classes, easy = with_labels(prior), np.ones_like(probabilities)
    expected = wrong.mean(axis=0) / 2  # hard samples cause the other half, about
    evidence = np.zeros_like(probabilities)
    for _ in range(_ITERATIONS):
        weights = classes * easy
        rates = weights.T @ wrong + _SAMPLES * expected
        rates = rates / (weights.sum(axis=0)[:, None] + _SAMPLES)
        rates = np.clip(rates, _LEAST_RATE, 1 - _LEAST_RATE)
        if_easy = np.log(1 - _HARD) + _log_likelihood(wrong, rates)
        if_hard = np.log(_HARD) + _log_likelihood(wrong, 1 - (1 - rates) * (1 - _HARD_RATE))
        log_likelihood = np.logaddexp(if_easy, if_hard)
        easy = np.exp(if_easy - log_likelihood)
        frequencies = np.log(classes.mean(axis=0) + _LEAST_FREQUENCY)
        frequencies -= np.log(probabilities.mean(axis=0) + _LEAST_FREQUENCY)
        evidence = log_likelihood + frequencies
        classes = with_labels(prior + evidence)
    return evidence


def _log_likelihood(
    wrong: Float[np.ndarray, "samples models"], rates: Float[np.ndarray, "classes models"]
) -> PerClass:
    """Returns float64[n, c] of outcomes [n, k] at the rates [c, k]; more than `_INDEPENDENT` models
    count as that many.
    """
    weight = min(1, _INDEPENDENT / wrong.shape[1])
    return weight * (wrong @ np.log(rates).T + (1 - wrong) @ np.log1p(-rates).T)


class KnownNetworks(SurrogateBuilder):
    """The tested model's own probabilities of errors, corrected by known models' outcomes as far as
    the bought labels support them: a sample that many known models got wrong is likely wrong.
    """

    about = "known models' outcomes (an evaluation cache) as difficulty; weighted by the labels"
    needs = ("outcomes",)

    def build(self, data: SurrogateData, seed: int) -> Surrogate:
        """Returns the surrogate."""
        base = CalibratedModel().build(data, seed)
        return DifficultySurrogate(data, base, UNINFORMED, seed)


class KnownNetworksHeads(SurrogateBuilder):
    """The heads' probabilities, updated by the patterns of known models' outcomes, and corrected by
    them as far as the bought labels support that. It trains the heads three times: on all labels,
    and on each half of them.
    """

    about = "heads on features, with the patterns of known models' outcomes (an evaluation cache)"
    needs = ("features", "outcomes")

    def build(self, data: SurrogateData, seed: int) -> Surrogate:
        """Returns the surrogate."""
        base = OutcomePatterns(Heads().build(data, seed), data.outcomes)
        return DifficultySurrogate(data, base, INFORMED, seed)
