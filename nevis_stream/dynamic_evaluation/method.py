"""What every method of dynamic evaluation shares: outcomes, the way to ask for them, estimates, and
the two-step interface.

A matrix of outcomes is uint8: 1 = the model is right on the sample, 0 = it is wrong, 255 = nobody
knows.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from nevis_stream.errors import BadInput

UNKNOWN = 255

Ask = Callable[[np.ndarray], np.ndarray]
"""int64[m, b], b samples for each of m new models, none twice over all calls -> uint8[m, b], their
outcomes.
"""


@dataclass(frozen=True)
class Estimates:
    """What a method says of m new models on n samples.

    Args:
      probabilities: float32[m, n], P(correct); an observed cell is exactly 0 or 1.
      outcomes: uint8[m, n], predicted 0 or 1; an observed cell keeps what was observed.
      observed: bool[m, n], which cells were asked.
      accuracy: float64[m], estimate of the mean over all n samples; need not be the mean of
        `outcomes`.
      low, high: float64[m], 95% interval of the accuracy; NaN where the method has none.
      reason: why there is no interval, where there is none.
    """

    probabilities: np.ndarray
    outcomes: np.ndarray
    observed: np.ndarray
    accuracy: np.ndarray
    low: np.ndarray
    high: np.ndarray
    reason: str = "the method has none"

    def within(self, half: float, reason: str) -> "Estimates":
        """Returns the same with the interval accuracy ± half; where half is NaN there is none, for
        a reason.
        """
        low, high = np.clip(self.accuracy - half, 0, 1), np.clip(self.accuracy + half, 0, 1)
        return dataclasses.replace(
            self, low=low, high=high, reason=reason if np.isnan(half) else ""
        )

    @classmethod
    def of(cls, probabilities, asked, answers, accuracy=None, interval=None) -> "Estimates":
        """Returns the estimates of predicted probabilities into which observed outcomes are
        written.

        Args:
          probabilities: float[m, n]; overwritten where something was observed. The predicted
            outcome is 1 from 0.5 on.
          asked: int64[m, b], the samples that were asked.
          answers: uint8[m, b], their outcomes.
          accuracy: float[m]; None: the mean of the outcomes, predicted and observed.
          interval: (low, high), float[m] each; None: unknown.
        """
        probabilities = np.array(probabilities, np.float32)
        np.put_along_axis(probabilities, asked, answers.astype(np.float32), axis=1)
        outcomes = (probabilities >= 0.5).astype(np.uint8)
        observed = np.zeros(outcomes.shape, bool)
        np.put_along_axis(observed, asked, True, axis=1)
        accuracy = outcomes.mean(axis=1) if accuracy is None else np.asarray(accuracy, np.float64)
        low, high = (np.full(len(outcomes), np.nan),) * 2 if interval is None else interval
        return cls(
            probabilities,
            outcomes,
            observed,
            accuracy,
            low,
            high,
            cls.reason if interval is None else "",
        )


class Evaluator(Protocol):
    """A method that has seen the known models."""

    def evaluate(self, ask: Ask, models: int, budget: int, key) -> Estimates:
        """Evaluates new models, all in one batch.

        Args:
          ask: where the outcomes come from.
          models: how many new models there are.
          budget: samples asked of each model.
          key: a JAX key, the only source of randomness.
        """


class Method(Protocol):
    """A way to evaluate new models on few samples; `name` is what users call it by.

    A method whose `out_of_core` is true reads what it needs of a `known.Known`; others get the
    whole matrix.
    """

    name: str

    def fit(self, known: np.ndarray, groups: Sequence[str] | None, key) -> Evaluator:
        """Learns from the known models, once for all new ones.

        Args:
          known: uint8[m0, n] of 0, 1 and 255.
          groups: the known models' groups (checkpoints of one training run are one), or None.
          key: a JAX key.
        """


def generator(key) -> np.random.Generator:
    """Returns NumPy's generator for a JAX key: the same key gives the same numbers on every
    machine.
    """
    import jax

    if key is None:
        raise BadInput("samples are drawn at random here: give a key, as jax.random.key(0).")
    return np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())


def check_outcomes(known: np.ndarray) -> np.ndarray:
    """Returns the matrix unchanged if it is one of outcomes.

    Raises:
      BadInput: not uint8[m, n] of 0, 1 and 255, or empty.
    """
    known = np.asarray(known)
    if known.ndim != 2 or known.dtype != np.uint8 or not known.size:
        raise BadInput(
            "a matrix of outcomes is uint8[models, samples], not empty; this is"
            f" {known.dtype}{list(known.shape)}."
        )
    counts = [np.count_nonzero(known == value) for value in (0, 1, UNKNOWN)]
    if sum(counts) != known.size:
        strange = sorted({*np.unique(known).tolist()} - {0, 1, UNKNOWN})
        raise BadInput(
            f"outcomes are 0 (wrong), 1 (right) or {UNKNOWN} (unknown); this matrix also holds"
            f" {strange[:5]}."
        )
    return known


def check_budget(budget: int, most: int, what: str = "samples of each model") -> int:
    """Returns the budget unchanged if 1 ≤ budget ≤ most; `what` tells of what it is.

    Raises:
      BadInput: it is not.
    """
    if isinstance(budget, bool) or not isinstance(budget, (int, np.integer)):
        raise BadInput(f"a budget of {budget!r} {what}: a whole number is expected.")
    if not 1 <= budget <= most:
        raise BadInput(
            f"a budget of {budget} {what}: it must lie between 1 and {most}, which is all there"
            " are."
        )
    return int(budget)


class MatrixOracle:
    """An `Ask` that reads the new models' outcomes from a matrix and keeps account of what was
    asked.

    Args:
      truth: uint8[m, n] of 0, 1 and 255.

    Attributes:
      asked: bool[m, n], the cells that were read.
      counts: int64[m], how many for each model.
    """

    def __init__(self, truth: np.ndarray):
        self.truth = check_outcomes(truth)
        self.asked = np.zeros(self.truth.shape, bool)

    @property
    def counts(self) -> np.ndarray:
        """int64[m]: how many samples were asked of each model."""
        return self.asked.sum(axis=1)

    def __call__(self, samples: np.ndarray) -> np.ndarray:
        """Returns uint8[m, b], the outcomes of samples int64[m, b].

        Raises:
          BadInput: an index out of range or asked before, or a cell that the matrix does not know.
        """
        samples = np.asarray(samples)
        models, n = self.truth.shape
        if (
            samples.ndim != 2
            or len(samples) != models
            or not np.issubdtype(samples.dtype, np.integer)
        ):
            raise BadInput(
                f"asked for {samples.dtype}{list(samples.shape)}; it must be int64[{models}, b], a"
                " row a model."
            )
        if samples.size and not 0 <= samples.min() <= samples.max() < n:
            raise BadInput(f"asked for sample {samples.min()} or {samples.max()}; there are {n}.")
        rows = np.arange(models)[:, None]
        ordered = np.sort(samples, axis=1)
        repeated = self.asked[rows, samples].any() or (ordered[:, 1:] == ordered[:, :-1]).any()
        if repeated:
            raise BadInput(
                "a sample was asked twice of one model; each evaluation costs, so none may be"
                " repeated."
            )
        outcomes = self.truth[rows, samples]
        if (outcomes == UNKNOWN).any():
            model, column = np.argwhere(outcomes == UNKNOWN)[0]
            raise BadInput(
                f"asked for model {model} on sample {samples[model, column]}, which this matrix"
                " does not know."
            )
        self.asked[rows, samples] = True
        return outcomes


def matrix_oracle(truth: np.ndarray) -> MatrixOracle:
    """Returns an `Ask` that reads outcomes from truth, uint8[m, n]."""
    return MatrixOracle(truth)
