"""The pool: what is known of a model on every sample before any label is asked."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nevis_stream.active_testing.losses import LOSSES
from nevis_stream.errors import BadInput, look_up


@dataclass(frozen=True)
class Pool:
    """The tested model on n samples of c classes.

    Attributes:
      predictions: float64[n, c], the model's probabilities.
      losses: float64[n, c], its loss on each sample if the label is that class. Two models are
        compared by the difference of their losses, see `difference`.
    """

    predictions: np.ndarray
    losses: np.ndarray

    @classmethod
    def of(cls, predictions: np.ndarray, loss: str = "cross_entropy") -> "Pool":
        """Returns the pool of a model.

        Args:
          predictions: [n, c], the model's probabilities.
          loss: a name of `losses.LOSSES`.

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


def difference(first: Pool, second: Pool) -> Pool:
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
