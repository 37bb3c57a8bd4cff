"""What estimators see: the labels so far, with what was believed before each was asked."""

from dataclasses import dataclass

import numpy as np

from nevis_stream.active_testing.pool import Pool
from nevis_stream.queries.oracle import NO_LABEL, Cost, Responses


@dataclass(frozen=True)
class LabelledDraws:
    """M labels, known or not, of a pool of n samples, in the order in which they were asked.

    Attributes:
      pool: the tested model.
      answers: samples and labels int[1, M] with their probabilities and cost.
      predicted: float64[M], the loss of each asked sample that the surrogate expected before it was
        asked.
      remaining: float64[M], the sum of expected losses over all samples that had no label just
        before that one was asked, itself included.
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
        return self.answers.samples[0]

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
        cells = self.answers.query
        return None if cells.probabilities is None else cells.probabilities[0]

    @property
    def left(self) -> np.ndarray:
        """int64[M], the number of samples that had no label just before each one was asked."""
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
