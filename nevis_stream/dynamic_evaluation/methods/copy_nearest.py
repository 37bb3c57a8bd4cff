"""CopyNearest&Expand: the answers of the known model that agrees best on the asked samples (Sort &
Search without Sort).
"""

from collections.abc import Sequence

import numpy as np

from nevis_stream.dynamic_evaluation import intervals
from nevis_stream.dynamic_evaluation.known import Known, known_models
from nevis_stream.dynamic_evaluation.method import UNKNOWN, Estimates, check_budget, generator
from nevis_stream.dynamic_evaluation.sampling import at_random
from nevis_stream.dynamic_evaluation.sort import sort

TRIED = 250  # known models that play new ones, at most


class CopyNearest:
    """Copies the nearest known model."""

    name = "copy_nearest"
    out_of_core = True

    def fit(self, known, groups, key) -> "Copier":
        """Keeps the known models; a hole is filled with what most models do there."""
        return Copier(known_models(known), groups, key)


class Copier:
    """Known models, whose holes are filled by the mean of the column; intervals are kept by
    budget.
    """

    def __init__(self, known: Known, groups: Sequence[str] | None, key):
        self._known, self._key, self._halves = known, key, {}
        self._groups = (
            np.arange(known.shape[0])
            if groups is None
            else np.unique(groups, return_inverse=True)[1]
        )
        self._most = sort(known).scores >= 0.5

    def evaluate(self, ask, models, budget, key) -> Estimates:
        """Asks random samples, the same of every model; of equally near models the first is
        copied.
        """
        samples = at_random(
            len(self._most), check_budget(budget, len(self._most)), 1, generator(key)
        )
        answers = ask(np.broadcast_to(samples, (models, budget)))
        nearest = _agreement(answers, self._filled(None, samples[0])).argmax(axis=1)
        estimates = Estimates.of(
            self._filled(nearest), np.broadcast_to(samples, answers.shape), answers
        )
        if budget not in self._halves:
            self._halves[budget] = intervals.tried(self._errors(budget), self._groups.tolist())
        return estimates.within(self._halves[budget], intervals.TOO_FEW)

    def _filled(self, rows: np.ndarray | None, samples: np.ndarray | None = None) -> np.ndarray:
        most = self._most if samples is None else self._most[samples]
        if rows is None:
            found = self._known.matrix(None, samples)
        else:
            each, place = np.unique(rows, return_inverse=True)
            found = self._known.matrix(each, samples)[place]
        return np.where(found == UNKNOWN, most, found).astype(np.uint8)

    def _errors(self, budget: int) -> np.ndarray:
        """Returns how far known models' accuracies are from those that other groups' nearest give,
        float64[250 at most].
        """
        if len(set(self._groups.tolist())) == 1:
            return np.empty(0)
        samples = at_random(len(self._most), budget, 1, generator(self._key))[0]
        cells, (right, seen) = self._filled(None, samples), self._known.row_sums()
        rows = np.flatnonzero(seen > 0)[:: -(-len(cells) // TRIED)]
        agreement = _agreement(cells[rows], cells)
        agreement[self._groups[rows][:, None] == self._groups] = -1
        nearest = agreement.argmax(axis=1)
        means = {row: self._filled(np.array([row])).mean() for row in np.unique(nearest).tolist()}
        kept = (cells[rows].astype(np.int64) - cells[nearest]).sum(axis=1) / len(self._most)
        found = np.array([means[row] for row in nearest.tolist()]) + kept
        return right[rows] / seen[rows] - found


def _agreement(answers: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Returns on how many samples models agree, float32[m, m0], of uint8[m, b] and uint8[m0, b]."""
    answers, theirs = answers.astype(np.float32), theirs.astype(np.float32)
    return answers @ theirs.T + (1 - answers) @ (1 - theirs).T


METHOD = CopyNearest()
