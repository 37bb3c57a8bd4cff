"""Sort & Search predicts ones up to the best threshold on one order of the samples, zeros after."""

import numpy as np

from nevis_stream.array_types import Bool
from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation.known_models import divide_models
from nevis_stream.dynamic_evaluation.method import Prediction, ScorePredictor
from nevis_stream.dynamic_evaluation.policy import Key, Policy
from nevis_stream.dynamic_evaluation.response import ResponsePosterior
from nevis_stream.dynamic_evaluation.sorting import Rank, find_thresholds, rank_samples
from nevis_stream.queries.matrix import Matrix
from nevis_stream.queries.oracle import Responses, answer_zeros
from nevis_stream.queries.samples import UNKNOWN
from nevis_stream.storage.checkpoint import Tree


class SortAndSearch(ScorePredictor):
    """Sort & Search on the order `by` of `sorting.sort`."""

    gives = frozenset({"rank"})
    takes_all = True

    def __init__(self, by: str = "sum"):
        self.by, self.out_of_core = by, by == "sum"
        self.about = f"Sort & Search, order by {by} sum" if by != "sum" else "Sort & Search"

    def fit(self, known: Matrix, key: Key, ctx: Compute) -> Tree:
        """Ranks the samples by the known models."""
        rank = rank_samples(known, ctx, self.by)
        return {"total": rank.total, "seen": rank.counts, "ties": rank.ties}

    def read_rank(self, tree: Tree) -> Rank:
        """Returns the order of the samples that `fit` stored."""
        return Rank(tree["total"], tree["seen"], tree["ties"])

    def make_posterior(self, tree: Tree, known: Matrix, ctx: Compute) -> ResponsePosterior:
        """Returns a posterior that gives the order of the samples."""
        return ResponsePosterior(known.shape[1], self.read_rank(tree))

    def predict(
        self, tree: Tree, budget_fit: Tree, known: Matrix, answers: Responses, ctx: Compute
    ) -> Prediction:
        """Predicts by the threshold with the fewest errors on the asked samples."""
        return Prediction(predict_by_threshold(self.read_rank(tree), answers, ctx))

    def compute_errors(
        self, tree: Tree, known: Matrix, policy: Policy, budget: int, key: Key, ctx: Compute
    ) -> np.ndarray | None:
        """Returns the errors of known models' means, each predicted with an order without the model
        and its group. None where new fits are needed: for weighted data sets, and for policies that
        adapt or learn more from the known models than an order.

        Sums without some models are all sums less theirs, so only these models' rows are read. An
        order by recursive sum keeps its ties here.
        """
        weighted = known.facts.dataset_weights is not None
        whole = known.facts.image is not None  # the other labels are asked too
        if policy.adaptive or not policy.representative or weighted or whole:
            return None
        rank, (total_correct, counts) = self.read_rank(tree), known.row_sums()
        means = np.full(known.shape[0], np.nan)
        for part in divide_models(len(means), known.groups):
            total, mask = known.column_sums(part)
            without = Rank(rank.total - total, rank.counts - mask, rank.ties)
            ctx.charge((2 * len(part) + without.n.bit_length()) * without.n)
            if without.counts.any():
                posterior = ResponsePosterior(without.n, without)
                learned = policy.fit(known, posterior, key, ctx)
                plan = policy.plan(learned, posterior, budget, key, ctx)
                samples = policy.ask(plan, answer_zeros, 1, key, ctx).samples[0]
                samples = samples[np.argsort(without.place[samples])]
                outcomes = known.matrix(part, samples)
                positions = np.broadcast_to(without.place[samples], outcomes.shape)
                until = find_thresholds(without, positions, outcomes)
                kept = np.where(
                    outcomes == UNKNOWN, 0, outcomes.astype(np.int64) - (positions < until[:, None])
                )
                means[part] = (until + kept.sum(axis=1)) / without.n
        errors = (
            np.divide(total_correct, counts, out=np.full(len(means), np.nan), where=counts > 0)
            - means
        )
        return errors[~np.isnan(errors)]


def predict_by_threshold(
    rank: Rank, answers: Responses, ctx: Compute
) -> Bool[np.ndarray, "models samples"]:
    """Returns predicted outcomes, bool[m, n], true up to the best threshold of each model."""
    places = rank.place[answers.samples]
    order = np.argsort(places, axis=1, kind="stable")
    places, outcomes = (
        np.take_along_axis(each, order, axis=1) for each in (places, answers.values)
    )
    ctx.charge(places.size * max(places.shape[1].bit_length(), 1) + len(places) * rank.n)
    return rank.place < find_thresholds(rank, places, outcomes)[:, None]
