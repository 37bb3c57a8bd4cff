"""Samples that are asked in place of those on which a new model cannot be asked.

A policy chooses among all samples, but a file may lack some values of a model. In place of a sample
without a value, the most similar one with a value is asked: of the same data set where there is
one, and with the nearest values of the known models.
"""

import functools
from collections.abc import Sequence

import numpy as np

from nevis_stream.dynamic_evaluation.asking import Cells
from nevis_stream.dynamic_evaluation.known import Known
from nevis_stream.dynamic_evaluation.matrix import numbers, observed
from nevis_stream.wording import plural

MODELS = 64  # known models by whose values samples are compared, at most


class Substitutes:
    """Replaces cells that cannot be asked.

    Args:
      known: the known models.
      askable: bool[m, n], the cells of m new models that can be asked. No model may be asked more
        samples than it has such cells.

    Attributes:
      counts: int64[m], the number of cells of each model that were replaced.
    """

    def __init__(self, known: Known, askable: np.ndarray):
        self._known, self._free = known, askable.copy()
        self._without = (~askable).sum(axis=1)
        self.counts = np.zeros(len(askable), np.int64)

    @functools.cached_property
    def _values(self) -> np.ndarray:
        """[k, n], of some known models, evenly over their order."""
        rows = np.linspace(0, self._known.shape[0] - 1, min(self._known.shape[0], MODELS))
        return self._known.matrix(np.unique(rows.astype(np.int64)))

    def __call__(self, cells: Cells) -> Cells:
        """Returns the cells to ask instead of these, [m, b]; none of them was returned before."""
        samples = np.array(cells.samples)
        for model, row in enumerate(samples):
            stays = self._free[model][row]
            self._free[model][row] = False
            for place in np.flatnonzero(~stays):
                row[place] = self._nearest(row[place], np.flatnonzero(self._free[model]))
                self._free[model][row[place]] = False
            self.counts[model] += np.count_nonzero(~stays)
        return Cells(samples, cells.probabilities, cells.shares)

    def message(self, models: Sequence[str]) -> str:
        """Returns for which of the models, by their ids, similar samples were asked."""
        most = int(self.counts.argmax())
        others = np.count_nonzero(self.counts) - 1
        also = f" (and of {plural(others, 'other model')})" if others else ""
        return (
            f"model {models[most]!r} has no value on {plural(int(self._without[most]), 'sample')};"
            f" {self.counts[most]:,} of those that were chosen had none, and the most similar"
            f" samples were asked instead{also}."
        )

    def _nearest(self, sample: int, others: np.ndarray) -> int:
        """Returns which of the other samples, int64[k], is most similar to a sample."""
        dataset = self._known.facts.dataset
        if dataset is not None and (same := dataset[others] == dataset[sample]).any():
            others = others[same]
        ours, theirs = self._values[:, [sample]], self._values[:, others]
        both = observed(ours) & observed(theirs)
        apart = np.where(both, np.abs(numbers(ours) - numbers(theirs)), 0).sum(axis=0)
        # where no known model has met both, they are as different as can be
        count = both.sum(axis=0)
        return int(others[np.where(count, apart / np.maximum(count, 1), 1).argmin()])
