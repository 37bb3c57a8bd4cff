"""Values of which lower ones are better, turned round: methods see 1 minus each value.

Methods take a large value for a good one where it matters little (a grid on the order of the
samples, ties), but so much that errors and accuracies gave other estimates. Turned round, both give
the same.
"""

import dataclasses
from collections.abc import Iterator
from typing import cast

import numpy as np

from nevis_stream.dynamic_evaluation.estimates import Estimates
from nevis_stream.dynamic_evaluation.known_models import KnownModels
from nevis_stream.queries.matrix import is_observed
from nevis_stream.queries.oracle import Oracle, Query, Responses
from nevis_stream.queries.samples import SampleFacts


def is_lower(known: KnownModels) -> bool:
    """Returns whether lower values of all samples are better."""
    lower = known.facts.lower
    return lower is not None and bool(lower.all())


def turn(values: np.ndarray) -> np.ndarray:
    """Returns 1 minus each known value; unknown ones stay unknown."""
    return np.where(is_observed(values), 1 - values, values).astype(values.dtype)


def turn_upright(known: KnownModels) -> KnownModels:
    """Returns known models of whose values higher ones are better."""
    return cast(KnownModels, _Turned(known)) if is_lower(known) else known


def turn_oracle(oracle: Oracle) -> Oracle:
    """Returns an `Oracle` that answers 1 minus each value."""

    def answer_turned(query: Query) -> Responses:
        answers = oracle(query)
        return dataclasses.replace(answers, values=turn(np.asarray(answers.values)))

    return answer_turned


def turn_estimates(estimates: Estimates) -> Estimates:
    """Returns the estimates of values from those of 1 minus each."""
    answers = estimates.answers
    return dataclasses.replace(
        estimates,
        values=1 - estimates.values,
        answers=dataclasses.replace(answers, values=turn(answers.values)),
        accuracy=1 - estimates.accuracy,
        low=1 - estimates.high,
        high=1 - estimates.low,
        others=None if estimates.others is None else 1 - estimates.others[[0, 2, 1]],
    )


class _Turned:
    """Known models, with 1 minus each value, read when they are needed; see `KnownModels`."""

    def __init__(self, known: KnownModels):
        self._known = known
        self.shape, self.groups, self.scores = known.shape, known.groups, known.scores
        self.facts: SampleFacts = dataclasses.replace(known.facts, lower=None)

    def column_sums(self, models: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        total, seen = self._known.column_sums(models)
        return seen - total, seen

    def row_sums(self) -> tuple[np.ndarray, np.ndarray]:
        total, seen = self._known.row_sums()
        return seen - total, seen

    def matrix(
        self, models: np.ndarray | None = None, samples: np.ndarray | None = None
    ) -> np.ndarray:
        return turn(self._known.matrix(models, samples))

    def packed_rows(self) -> Iterator[np.ndarray]:
        return self._known.packed_rows()
