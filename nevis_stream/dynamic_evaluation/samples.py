"""What is known of the samples of a matrix, apart from the values of models on them."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class SampleFacts:
    """Facts about n samples; None where a fact is unknown.

    Attributes:
      n: how many samples there are.
      features: float32[n, d], from a backbone or a file.
      dataset: str[n], the data set that each sample belongs to.
      group: str[n], a group inside a data set: a class or a subject, for example.
      low, high: float32[n], the range of each sample's score; None: 0 and 1.
      dataset_weights: by data set, its share of the overall mean; None: each sample weighs the
        same.
    """

    n: int
    features: np.ndarray | None = None
    dataset: np.ndarray | None = None
    group: np.ndarray | None = None
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    dataset_weights: Mapping[str, float] | None = None

    @cached_property
    def weights(self) -> np.ndarray:
        """float64[n], each sample's share of the overall mean; they add up to 1.

        With `dataset_weights`, the means of the data sets are averaged with these weights.
        """
        if self.dataset is None or self.dataset_weights is None:
            return np.full(self.n, 1 / self.n)
        names, place, sizes = np.unique(self.dataset, return_inverse=True, return_counts=True)
        shares = np.array([self.dataset_weights[name] for name in names.tolist()], np.float64)
        return (shares / shares.sum() / sizes)[place]

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Returns the weighted mean over all samples, float64[m], of values [m, n]."""
        if self.dataset is None or self.dataset_weights is None:
            return values.mean(axis=1, dtype=np.float64)
        return values.astype(np.float64) @ self.weights

    def take(self, columns: np.ndarray) -> "SampleFacts":
        """Returns the facts of some samples, int64 columns."""

        def chosen(values: np.ndarray | None) -> np.ndarray | None:
            return None if values is None else values[columns]

        return SampleFacts(
            len(columns),
            chosen(self.features),
            chosen(self.dataset),
            chosen(self.group),
            chosen(self.low),
            chosen(self.high),
            self.dataset_weights,
        )
