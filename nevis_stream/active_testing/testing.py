"""The loop: believe, choose, ask, and believe again."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from nevis_stream.active_testing.candidates import Candidates
from nevis_stream.active_testing.choosing import Drawn, Highest
from nevis_stream.active_testing.evidence import Evidence
from nevis_stream.active_testing.pool import Pool, check_probabilities
from nevis_stream.active_testing.registries import RULES
from nevis_stream.dynamic_evaluation.asking import (
    Answers,
    Ask,
    Cells,
    Cost,
    check_budget,
    check_cells,
)
from nevis_stream.dynamic_evaluation.registry import named
from nevis_stream.errors import BadInput

UNCOUNTED = frozenset({"acquisition scores"})


@dataclass(frozen=True)
class Members:
    """A surrogate's belief about the labels of the pool.

    Attributes:
      probabilities: float64[e, n, c], one distribution over classes per member and sample.
      cost: of training and predicting.
    """

    probabilities: np.ndarray
    cost: Cost = Cost()


Surrogate = Callable[[Answers], Members]
"""Given all labels so far, returns members that may have learned from them."""


def active_test(
    pool: Pool,
    surrogate: Surrogate,
    ask: Ask,
    budget: int,
    random: np.random.Generator,
    rule: str = "expected_loss",
    choose: Drawn | Highest = Drawn(),  # noqa: B008, it is frozen
    batch: int = 1,
) -> Iterator[Evidence]:
    """Yields the evidence after each batch of labels.

    Args:
      pool: the tested model.
      surrogate: is called before the first and after every batch.
      ask: answers cells int64[1, b] with labels int[1, b] from 0 to c - 1.
      budget: number of labels, at most the number of samples.
      random: draws the samples.
      rule: a name of `registries.RULES`.
      choose: how scores become samples.
      batch: number of labels that are asked at a time.

    Raises:
      BadInput: an argument cannot be used, or an answer is not a label.
    """
    score = named(RULES, "acquisition rule", rule)
    check_budget(budget, pool.n, "labels")
    if batch < 1:
        raise BadInput(f"batch={batch}: at least one label must be asked at a time.")
    answers = Answers(Cells.none(1), np.empty((1, 0), np.int32))
    members, evidence = _believe(Evidence(pool, answers, *np.zeros((2, 0)), np.zeros(0)), surrogate)
    left = np.ones(pool.n, bool)
    while evidence.asked < budget:
        samples = np.flatnonzero(left)
        candidates = Candidates(
            members[:, samples], pool.losses[samples], pool.predictions[samples]
        )
        count = min(batch, budget - evidence.asked)
        positions, probabilities = choose(score(candidates), count, random)
        chosen = samples[positions]
        cells = Cells(chosen[None], None if probabilities is None else probabilities[None])
        left[chosen] = False
        members, evidence = _believe(_added(evidence, _labels(ask, cells, pool)), surrogate)
        yield evidence


def _labels(ask, cells, pool):
    answers, classes = ask(cells), pool.losses.shape[1]
    labels = np.asarray(answers.values)
    if labels.shape != cells.samples.shape or labels.dtype.kind not in "iu":
        raise BadInput(
            f"labels {labels.dtype}{list(labels.shape)}; expected one whole number for each of"
            f" {cells.samples.size} samples."
        )
    wrong = (labels < 0) | (labels >= classes)
    if wrong.any():
        raise BadInput(
            f"label {labels[wrong][0]} of sample {cells.samples[wrong][0]}: expected a class from"
            f" 0 to {classes - 1}."
        )
    return replace(answers, cells=cells)


def _added(evidence, answers):
    expected = evidence.expected.copy()
    expected[evidence.samples] = 0
    predicted = expected[answers.samples[0]]
    remaining = expected.sum() - (np.cumsum(predicted) - predicted)
    return replace(
        evidence,
        answers=evidence.answers.then(answers),
        predicted=np.append(evidence.predicted, predicted),
        remaining=np.append(evidence.remaining, remaining),
        cost=evidence.cost + answers.cost + Cost(uncounted=UNCOUNTED),
    )


def _believe(evidence, surrogate):
    belief, pool = surrogate(evidence.answers), evidence.pool
    members = check_probabilities(belief.probabilities, "the surrogate's probabilities", 3)
    if members.shape[1:] != pool.losses.shape:
        raise BadInput(
            f"the surrogate's probabilities have the shape {list(members.shape)}; expected"
            f" [members, {pool.n}, {pool.losses.shape[1]}]."
        )
    expected = np.einsum("enc,nc->n", members, pool.losses) / len(members)
    return members, replace(evidence, expected=expected, cost=evidence.cost + belief.cost)


def fixed(probabilities: np.ndarray) -> Surrogate:
    """Returns a surrogate float64[e, n, c] that learns nothing from labels."""
    members = Members(probabilities)
    return lambda answers: members


class KnownLabels:
    """An `Ask` for simulations: reads labels int[n], and counts each as bought."""

    def __init__(self, labels: np.ndarray):
        self.labels = np.asarray(labels)

    def __call__(self, cells: Cells) -> Answers:
        """Returns the labels of the cells, at a cost of one label each."""
        samples = check_cells(cells.samples, (len(cells.samples), len(self.labels)))
        return Answers(cells, self.labels[samples], Cost(labels=samples.size))
