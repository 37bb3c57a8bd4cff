"""The loop: predict, choose, ask, and predict again."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nevis_stream.active_testing.acquisition_functions import RULES, ProportionalSampling, TopK
from nevis_stream.active_testing.pool import Candidates, LabelledDraws, Pool, check_probabilities
from nevis_stream.array_types import Bool, Float, Int
from nevis_stream.errors import BadInput, RunWarning, look_up, plural
from nevis_stream.queries.oracle import (
    Cost,
    Oracle,
    Query,
    Responses,
    ask_checked,
    check_budget,
    check_cells,
)
from nevis_stream.user_calls import ReadOnly

UNCOUNTED = frozenset({"acquisition scores"})  # computing whose FLOPs are in no cost
_BLOCK = 16384  # samples that are computed at a time: a large pool may stay on disk


@dataclass(frozen=True)
class EnsemblePredictions(ReadOnly):
    """What a surrogate predicts of the labels of the pool.

    Attributes:
      probabilities: float[e, n, c], one distribution over classes per member and sample; may be a
        memory-mapped file.
      cost: of training and predicting.
    """

    probabilities: np.ndarray
    cost: Cost = Cost()


Surrogate = Callable[[Responses], EnsemblePredictions]
"""Given all labels so far, returns predictions of members that may have learned from them."""


def run_active_test(
    pool: Pool,
    surrogate: Surrogate,
    oracle: Oracle,
    budget: int,
    random: np.random.Generator,
    rule: str = "rms_loss",
    choose: ProportionalSampling | TopK = ProportionalSampling(),  # noqa: B008, it is frozen
    batch: int | Callable[[int], int] = 1,
) -> Iterator[LabelledDraws]:
    """Yields the labelled draws after each batch of labels.

    A sample without a label (see `oracle.ask_checked`) is left out and counted; estimates allow for
    any label of it.

    Args:
      pool: the tested model.
      surrogate: is called before the first and after every batch.
      oracle: answers cells int64[1, b] with labels int[1, b] from 0 to c - 1.
      budget: number of samples to ask, at most all.
      random: draws the samples.
      rule: a name of `acquisition_functions.RULES`.
      choose: how scores become samples.
      batch: number of labels that are asked at a time, or a function that returns it for the
        number of labels so far.

    Raises:
      BadInput: an argument cannot be used, an answer is not a label, or there is none at all.
    """
    look_up(RULES, "acquisition rule", rule)
    check_budget(budget, pool.n, "labels")
    batch_size = batch if callable(batch) else lambda asked: batch
    answers = Responses(Query.none(1), np.empty((1, 0), np.int32))
    members, draws = _predict(
        LabelledDraws(pool, answers, np.zeros(0), np.zeros(0), np.zeros(0)), surrogate
    )
    left = np.ones(pool.n, bool)
    while draws.asked < budget:
        count = batch_size(draws.asked)
        if count < 1:
            raise BadInput(f"batch={count}: at least one label must be asked at a time.")
        count = min(count, budget - draws.asked)
        query = choose_samples([pool], members, left, count, random, rule, choose)
        left[query.samples] = False
        answers = ask_checked(oracle, query, classes=pool.losses.shape[1])
        members, draws = _predict(_add(draws, answers), surrogate)
        yield draws
    if draws.failed == draws.asked:
        raise BadInput(
            f"none of the {draws.asked} samples that were asked gave a class, a whole number"
            f" from 0 to {pool.losses.shape[1] - 1}."
        )
    if draws.failed:
        example = draws.samples[~draws.known][0]
        warnings.warn(
            f"{plural(draws.failed, 'sample')} of {draws.asked} gave no answer, for example"
            f" {example}; no class stands for them, and the interval allows for any.",
            RunWarning,
            stacklevel=2,
        )


def choose_samples(
    pools: Sequence[Pool],
    members: np.ndarray,
    left: Bool[np.ndarray, " samples"],
    count: int,
    random: np.random.Generator,
    rule: str = "rms_loss",
    choose: ProportionalSampling | TopK = ProportionalSampling(),  # noqa: B008, it is frozen
) -> Query:
    """Returns the samples to label next, int64[1, count], with the probabilities of the draws.

    Args:
      pools: the tested models. The scores of several models are divided by their sum and added.
      members: float[e, n, c], the surrogate's probabilities.
      left: bool[n], the samples that were not asked before; at least `count`.
      count: number of samples.
      random: draws them.
      rule, choose: as in `run_active_test`.
    """
    score = look_up(RULES, "acquisition rule", rule)
    samples = np.flatnonzero(left)
    scores = np.empty((len(pools), len(samples)))
    for start in range(0, len(samples), _BLOCK):
        rows = samples[start : start + _BLOCK]
        block = np.asarray(members[:, rows], np.float64)
        for number, pool in enumerate(pools):
            candidates = Candidates(block, pool.losses[rows], pool.predictions[rows])
            scores[number, start : start + _BLOCK] = score(candidates)
    if len(pools) > 1:
        scores = scores / np.maximum(abs(scores).sum(axis=1, keepdims=True), 1e-300)
    positions, probabilities = choose(scores.sum(axis=0), count, random)
    return Query(samples[positions][None], None if probabilities is None else probabilities[None])


def expect_losses(pool: Pool, members: np.ndarray) -> Float[np.ndarray, " samples"]:
    """Returns the losses that a surrogate expects, float64[n].

    Args:
      pool: the tested model.
      members: float[e, n, c].

    Raises:
      BadInput: the members are no probabilities, or those of other samples or classes.
    """
    if members.ndim != 3 or members.shape[1:] != pool.losses.shape:
        raise BadInput(
            f"the surrogate's probabilities have the shape {list(members.shape)}; expected"
            f" [members, {pool.n}, {pool.losses.shape[1]}]."
        )
    expected = np.empty(pool.n)
    for start in range(0, pool.n, _BLOCK):
        part = slice(start, start + _BLOCK)
        block = check_probabilities(members[:, part], "the surrogate's probabilities", 3)
        expected[part] = np.einsum("enc,nc->n", block, pool.losses[part]) / len(block)
    return expected


def expect_before(
    expected: Float[np.ndarray, " samples"],
    earlier: Int[np.ndarray, " asked"],
    samples: Int[np.ndarray, " batch"],
) -> tuple[Float[np.ndarray, " batch"], Float[np.ndarray, " batch"]]:
    """Returns what was expected before each of b labels: `LabelledDraws.predicted` and `remaining`.

    Args:
      expected: float64[n], the losses that the surrogate expects.
      earlier: int64[M], samples that were asked before.
      samples: int64[b], samples that are asked now, in their order.
    """
    expected = expected.copy()
    expected[earlier] = 0
    predicted = expected[samples]
    return predicted, expected.sum() - (np.cumsum(predicted) - predicted)


def _add(draws: LabelledDraws, answers: Responses) -> LabelledDraws:
    samples = answers.samples[0]
    predicted, remaining = expect_before(draws.expected, draws.samples, samples)
    return replace(
        draws,
        answers=draws.answers.then(answers),
        predicted=np.append(draws.predicted, predicted),
        remaining=np.append(draws.remaining, remaining),
        cost=draws.cost + answers.cost + Cost(uncounted=UNCOUNTED),
    )


def _predict(draws: LabelledDraws, surrogate: Surrogate) -> tuple[np.ndarray, LabelledDraws]:
    predictions = surrogate(draws.answers.valid())
    members = np.asanyarray(predictions.probabilities)
    expected = expect_losses(draws.pool, members)
    return members, replace(draws, expected=expected, cost=draws.cost + predictions.cost)


def fix_surrogate(probabilities: np.ndarray) -> Surrogate:
    """Returns a surrogate that predicts these float64[e, n, c], whatever the labels."""
    predictions = EnsemblePredictions(probabilities)
    return lambda answers: predictions


active_test, fixed = run_active_test, fix_surrogate  # their former names


class KnownLabels:
    """An `Oracle` for simulations: reads labels int[n], and counts each as bought."""

    def __init__(self, labels: np.ndarray):
        self.labels = np.asarray(labels)

    def __call__(self, query: Query) -> Responses:
        """Returns the labels of the cells, at a cost of one label each."""
        samples = check_cells(query.samples, (len(query.samples), len(self.labels)))
        return Responses(query, self.labels[samples], Cost(labels=samples.size))
