"""Samples that are asked in place of those on which a new model gives no answer.

A policy chooses among all samples, but a file may lack some values of a model, and a model may fail
or refuse. In place of a sample without an answer, the most similar one is asked: of the same data
set where there is one, and with the nearest values of the known models.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence

import numpy as np

from nevis_stream.dynamic_evaluation.known_models import KnownModels
from nevis_stream.errors import plural
from nevis_stream.evaluation_cache.exchange import TooFewAnswers
from nevis_stream.queries.matrix import is_observed, numbers
from nevis_stream.queries.oracle import Cost, Query, Responses

MODELS = 64  # known models by whose values samples are compared, at most


class Substitutes:
    """Replaces cells that cannot be asked, or were asked without an answer.

    Args:
      known: the known models.
      askable: bool[m, n], the cells of m new models that can be asked. No model may be asked more
        samples than it has such cells.

    Attributes:
      counts: int64[m], the number of cells of each model that were replaced because they cannot be
        asked.
    """

    def __init__(self, known: KnownModels, askable: np.ndarray):
        self._known, self._free = known, askable.copy()
        self._without = (~askable).sum(axis=1)
        self.counts = np.zeros(len(askable), np.int64)

    @functools.cached_property
    def _values(self) -> np.ndarray:
        """[k, n], of some known models, evenly over their order."""
        rows = np.linspace(0, self._known.shape[0] - 1, min(self._known.shape[0], MODELS))
        return self._known.matrix(np.unique(rows.astype(np.int64)))

    def ask_checked(self, query: Query, oracle: Callable[[Query], Responses]) -> Responses:
        """Returns answers to these cells, or to similar ones where there is none.

        Args:
          query: [m, b].
          oracle: returns answers, unknown where a model gave none; a cell that was answered before
            costs nothing.

        Raises:
          TooFewAnswers: a model has no sample left.
        """
        query, cost = self(query), Cost()
        while True:
            answers = oracle(query)
            cost += answers.cost
            failed = ~is_observed(answers.values)
            if not failed.any():
                return dataclasses.replace(answers, cost=cost)
            query = self.replace(query, ~failed)

    def __call__(self, query: Query) -> Query:
        """Returns the cells to ask instead of these, [m, b]; none of them was returned before."""
        samples = query.samples
        stays = np.take_along_axis(self._free, samples, axis=1)
        np.put_along_axis(self._free, samples, False, axis=1)
        self.counts += (~stays).sum(axis=1)
        return self.replace(query, stays)

    def replace(self, query: Query, stays: np.ndarray) -> Query:
        """Returns the cells with similar ones in place of those without an answer, [m, b].

        Args:
          query: [m, b].
          stays: bool[m, b], which cells have an answer, or may be asked.

        Raises:
          TooFewAnswers: a model has no sample left.
        """
        samples = np.array(query.samples)
        for model, row in enumerate(samples):
            for place in np.flatnonzero(~stays[model]):
                others = np.flatnonzero(self._free[model])
                if not len(others):
                    raise TooFewAnswers
                row[place] = self._nearest(row[place], others)
                self._free[model][row[place]] = False
        return Query(samples, query.probabilities, query.fractions)

    def message(self, models: Sequence[str]) -> str:
        """Returns for which of the models, by their ids, similar samples were asked."""
        most = int(self.counts.argmax())
        return (
            f"model {models[most]!r} has no value on {plural(int(self._without[most]), 'sample')};"
            f" {self.counts[most]:,} of those that were chosen had none, and the most similar"
            f" samples were asked instead{also(self.counts)}."
        )

    def _nearest(self, sample: int, others: np.ndarray) -> int:
        """Returns which of the other samples, int64[k], is most similar to a sample."""
        if (prices := self._known.facts.prices) is not None:
            others = others[prices.each[others] <= prices.each[sample]]  # so the budget holds
            if not len(others):
                raise TooFewAnswers
        dataset = self._known.facts.dataset
        if dataset is not None and (same := dataset[others] == dataset[sample]).any():
            others = others[same]
        ours, theirs = self._values[:, [sample]], self._values[:, others]
        both = is_observed(ours) & is_observed(theirs)
        apart = np.where(both, np.abs(numbers(ours) - numbers(theirs)), 0).sum(axis=0)
        # where no known model has met both, they are as different as can be
        count = both.sum(axis=0)
        return int(others[np.where(count, apart / np.maximum(count, 1), 1).argmin()])


def also(counts: np.ndarray) -> str:
    """Returns, for a message about one model, how many others it is true of."""
    others = np.count_nonzero(counts) - 1
    return f" (and of {plural(others, 'other model')})" if others else ""
