"""The samples of a test: the pool, the losses of its model, and samples with and without a label.

The pool is what is known of a model on every sample before any label is asked. Losses are those
that a model has if a sample's label is a class, for every class: float64[n, c]. Acquisition
functions see the candidates, which have no label yet; estimators see the labels so far, with the
losses that were expected before each was asked.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import xlogy

from nevis_stream.errors import BadInput, look_up
from nevis_stream.queries.oracle import NO_LABEL, Cost, Responses
from nevis_stream.user_calls import ReadOnly

CLIP = 1e-20  # least probability; without it one sample could have an infinite cross-entropy


@dataclass(frozen=True)
class Loss:
    """A loss.

    Attributes:
      about: one line for people.
      values: takes probabilities, float64[n, c], and returns losses, float64[n, c], in nats or
        errors.
    """

    about: str
    values: Callable[[np.ndarray], np.ndarray]

    def __call__(self, probabilities: np.ndarray) -> np.ndarray:
        """Returns the losses, float64[n, c]."""
        return self.values(probabilities)


def cross_entropy(probabilities: np.ndarray) -> np.ndarray:
    """Returns -log f(y|x) for every class y, float64[n, c], in nats.

    Args:
      probabilities: float64[n, c], of the model. They are clipped to at least `CLIP` and divided by
        their sum, as in the ASE paper's code.
    """
    clipped = np.maximum(np.asarray(probabilities, np.float64), CLIP)
    return -np.log(clipped / clipped.sum(axis=1, keepdims=True))


def zero_one(probabilities: np.ndarray) -> np.ndarray:
    """Returns 1 for every class but the most probable one, float64[n, c].

    Args:
      probabilities: float64[n, c], of the model; of several equal maxima the first counts.
    """
    losses = np.ones(probabilities.shape)
    losses[np.arange(len(losses)), probabilities.argmax(axis=1)] = 0
    return losses


LOSSES: Mapping[str, Loss] = {
    "cross_entropy": Loss("Cross-entropy in nats.", cross_entropy),
    "zero_one": Loss("0-1 loss, whose mean is the error rate.", zero_one),
}
"""By name."""


@dataclass(frozen=True)
class Pool(ReadOnly):
    """The tested model on n samples of c classes.

    Attributes:
      predictions: float64[n, c], the model's probabilities.
      losses: float64[n, c], its loss on each sample if the label is that class. Two models are
        compared by the difference of their losses, see `subtract_pools`.
    """

    predictions: np.ndarray
    losses: np.ndarray

    @classmethod
    def of(cls, predictions: np.ndarray, loss: str = "cross_entropy") -> "Pool":
        """Returns the pool of a model.

        Args:
          predictions: [n, c], the model's probabilities.
          loss: a name of `LOSSES`.

        Raises:
          BadInput: the loss is unknown, or the predictions are not probabilities.
        """
        predictions = check_probabilities(predictions, "the model's predictions", 2)
        return cls(predictions, look_up(LOSSES, "loss", loss)(predictions))

    @property
    def n(self) -> int:
        """Number of samples."""
        return len(self.losses)

    @cached_property
    def binary(self) -> bool:
        """Whether every loss is 0 or 1."""
        return bool(((self.losses == 0) | (self.losses == 1)).all())

    @cached_property
    def signed(self) -> bool:
        """Whether a loss is negative, as in the difference of two models."""
        return bool(self.losses.min() < 0)

    @cached_property
    def loss_if_wrong(self) -> np.ndarray:
        """float64[n], how much larger the loss of each sample is if its label is another class than
        the model's answer: the mean over those classes, by the model's probabilities. The answer of
        two models is that of their mean probabilities.
        """
        rows, answers = np.arange(self.n), self.predictions.argmax(axis=1)
        others = self.predictions + 1e-12  # a model that is entirely sure has no preference
        others[rows, answers] = 0
        means = (others * self.losses).sum(axis=1) / others.sum(axis=1).clip(1e-300)
        return means - self.losses[rows, answers]

    def risk(self, labels: np.ndarray) -> float:
        """Returns the mean loss, which estimators estimate, if all labels int[n] are known."""
        return float(self.losses[np.arange(self.n), labels].mean())


def subtract_pools(first: Pool, second: Pool) -> Pool:
    """Returns a pool whose risk is that of the first model minus that of the second one.

    Both are estimated from the same labels, so what makes a sample hard for both cancels. Its
    predictions are the mean of both models' probabilities.

    Raises:
      BadInput: the pools have different samples or classes.
    """
    if first.losses.shape != second.losses.shape:
        raise BadInput(
            f"models with predictions {list(first.losses.shape)} and {list(second.losses.shape)}"
            " cannot be compared; both need the same samples and classes."
        )
    return Pool((first.predictions + second.predictions) / 2, first.losses - second.losses)


def check_probabilities(values: np.ndarray, name: str, dimensions: int) -> np.ndarray:
    """Returns values as float64 if they are probabilities that sum to 1 over the last axis.

    Raises:
      BadInput: they are not; the message begins with `name`.
    """
    values = np.asarray(values, np.float64)
    if values.ndim != dimensions or 0 in values.shape:
        shape = {2: "[samples, classes]", 3: "[members, samples, classes]"}[dimensions]
        raise BadInput(f"{name} have the shape {list(values.shape)}; expected {shape}.")
    if not np.isfinite(values).all() or values.min() < 0:
        raise BadInput(f"{name} contain a negative or undefined number; expected probabilities.")
    sums = values.sum(axis=-1)
    if (abs(sums - 1) > 1e-3).any():
        wrong = sums.ravel()[abs(sums - 1).argmax()]
        raise BadInput(f"{name} sum to {wrong:g} over the classes of a sample; expected 1.")
    return values


@dataclass(frozen=True)
class Candidates(ReadOnly):
    """Samples among which the next labels are chosen: r samples, c classes, e members.

    Attributes:
      members: float64[e, r, c], the surrogate's probabilities.
      losses: float64[r, c], the model's loss if the label is that class; negative only if two
        models are compared.
      predictions: float64[r, c], the model's own probabilities.
    """

    members: np.ndarray
    losses: np.ndarray
    predictions: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        """float64[r, c], the mean of the members."""
        return self.members.mean(axis=0)

    @property
    def disagreement(self) -> np.ndarray:
        """float64[r, c], in nats: what each class contributes to the mutual information of the
        label and the member, -p̄ log p̄ + mean_e p_e log p_e.

        It is at least 0 by Jensen's inequality; rounding is removed.
        """
        total = np.zeros(self.losses.shape)
        for member in self.members:  # needs no second array of [e, r, c]
            total += xlogy(member, member)
        mean = self.mean
        return np.maximum(total / len(self.members) - xlogy(mean, mean), 0)


def entropy(probabilities: np.ndarray) -> np.ndarray:
    """Returns the entropy in nats over the last axis."""
    return -xlogy(probabilities, probabilities).sum(axis=-1)


@dataclass(frozen=True)
class LabelledDraws:
    """M labels, known or not, of a pool of n samples, in the order in which they were asked.

    Attributes:
      pool: the tested model.
      answers: samples and labels int[1, M] with their probabilities and cost.
      predicted: float64[M], the loss of each asked sample that the surrogate expected before it was
        asked.
      remaining: float64[M], the sum of expected losses over all samples not asked before that one,
        itself included.
      expected: float64[n], the losses that the latest surrogate expects.
      cost: of the labels and of what was computed.
      assumed: losses of the samples without a label, float64[M] or a number; NaN: not known.
    """

    pool: Pool
    answers: Responses
    predicted: np.ndarray
    remaining: np.ndarray
    expected: np.ndarray
    cost: Cost = Cost()
    assumed: np.ndarray | float = np.nan

    @property
    def asked(self) -> int:
        """Number of asked samples, M."""
        return self.samples.size

    @property
    def known(self) -> np.ndarray:
        """bool[M], which of the asked samples have a label."""
        return self.labels != NO_LABEL

    @property
    def failed(self) -> int:
        """Number of asked samples without a label."""
        return int((~self.known).sum())

    @property
    def samples(self) -> np.ndarray:
        """int64[M], the asked samples."""
        return self.answers.query.samples[0]

    @property
    def labels(self) -> np.ndarray:
        """int32[M], `NO_LABEL` where there is none."""
        return self.answers.values[0]

    @property
    def losses(self) -> np.ndarray:
        """float64[M], the model's losses on the asked samples."""
        losses = self.pool.losses[self.samples, self.labels]
        return np.where(self.known, losses, self.assumed)

    @property
    def probabilities(self) -> np.ndarray | None:
        """float64[M], with which each sample was drawn among those left; None if chosen."""
        query = self.answers.query
        return None if query.probabilities is None else query.probabilities[0]

    @property
    def left(self) -> np.ndarray:
        """int64[M], the number of samples not asked before each one, itself included."""
        return self.pool.n - np.arange(self.asked)

    @property
    def random(self) -> bool:
        """Whether every sample was drawn at random from those that were left."""
        q = self.probabilities
        return q is not None and bool(((q < 1) | (self.left == 1)).all())

    @property
    def uniform(self) -> bool:
        """Whether each draw was uniform."""
        return self.random and np.allclose(self.probabilities * self.left, 1, rtol=1e-9)
