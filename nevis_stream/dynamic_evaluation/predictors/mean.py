"""Means of the observed samples: as the prediction of every cell, without an order and without
known models; or of the accuracy alone, with Sort & Search for the cells.
"""

import hashlib

import numpy as np

from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation.method import Prediction, ScorePredictor
from nevis_stream.dynamic_evaluation.policy import Key, Policy
from nevis_stream.dynamic_evaluation.predictors.sort_and_search import (
    SortAndSearch,
    predict_by_threshold,
)
from nevis_stream.dynamic_evaluation.sorting import Rank
from nevis_stream.estimation import intervals
from nevis_stream.queries import samples
from nevis_stream.queries.matrix import Matrix
from nevis_stream.queries.oracle import ANY_MODEL, Responses
from nevis_stream.queries.samples import UNKNOWN, SampleFacts
from nevis_stream.storage.checkpoint import Tree


class Mean(ScorePredictor):
    """The plain mean with its Wilson interval, corrected for the finite number of samples.

    The variance of a score in [0, 1] is at most that of an outcome with the same mean, so its
    interval is too wide rather than too narrow.
    """

    about = "mean of the observed samples"
    takes_scores = True
    out_of_core = True
    holds_for = ANY_MODEL

    def is_calibrated(self, policy: Policy) -> bool:
        """Returns whether the cells are drawn from all samples."""
        return policy.drawn

    def predict(
        self, tree: Tree, budget_fit: Tree, known: Matrix, answers: Responses, ctx: Compute
    ) -> Prediction:
        """Gives every cell the mean of the cells that represent all samples."""
        weights = compute_mean_weights(answers, known.facts)
        mean = (weights * answers.values).sum(axis=1)
        effective = 1 / (weights**2).sum(axis=1).max()  # number of equally weighted samples
        ctx.charge(2 * answers.values.size)
        interval = intervals.compute_wilson(
            mean, intervals.count_effective(effective, known.shape[1])
        )
        cells = np.broadcast_to(mean[:, None], (len(mean), known.shape[1]))
        return Prediction(cells, mean, interval)


def compute_mean_weights(answers: Responses, facts: SampleFacts) -> np.ndarray:
    """Returns the weight of each observed cell in an estimate of the mean over all samples,
    float64[m, b]; the weights of a model add up to 1.

    Cells that a policy chose for their information have weight 0; if a policy gives no fractions,
    all cells have the same weight.
    """
    fractions = answers.query.fractions
    if fractions is None or not fractions.any():
        fractions = np.ones(answers.values.shape)
    weights = fractions * facts.weights[answers.samples]
    return weights / weights.sum(axis=1, keepdims=True)


MODELS_FOR_DESIGN = 64  # known models, at most, for which the design's variance is computed


class Stratified(SortAndSearch):
    """Predicts the mean by one sample per stratum. The interval is Wilson's, for the number of
    simple random draws that would have the variance of the stratified design, which is computed for
    the known models.
    """

    takes_all = False  # its strata are those of the asked samples
    holds_for = ANY_MODEL

    def __init__(self) -> None:
        super().__init__()
        self.about = "mean of the asked samples; cells by Sort & Search"

    def is_calibrated(self, policy: Policy) -> bool:
        """Returns whether the cells are drawn from all samples."""
        return policy.drawn

    def fit_budget(
        self, tree: Tree, known: Matrix, policy: Policy, budget: int, key: Key, ctx: Compute
    ) -> Tree:
        """Compares the variance of one sample per stratum with that of simple random samples."""
        return {"design": _compute_variance_ratio(self.read_rank(tree), known, budget, ctx)}

    def predict(
        self, tree: Tree, budget_fit: Tree, known: Matrix, answers: Responses, ctx: Compute
    ) -> Prediction:
        """Gives the mean of the representative cells."""
        weights = compute_mean_weights(answers, known.facts)
        mean = (weights * answers.values).sum(axis=1)
        n, budget = known.shape[1], answers.samples.shape[1]
        effective, design = float(budget), budget_fit["design"]
        unequal = known.facts.dataset_weights is not None or known.facts.prices is not None
        if budget < n and unequal:
            # unequal weights leave fewer draws than the budget (Kish 1965), and the design's
            # variance is that of the unweighted mean
            effective, design = 1 / (weights**2).sum(axis=1).max(), 1.0
        interval = intervals.compute_wilson(mean, intervals.count_effective(effective, n, design))
        return Prediction(predict_by_threshold(self.read_rank(tree), answers, ctx), mean, interval)


def _compute_variance_ratio(rank: Rank, known: Matrix, budget: int, ctx: Compute) -> float:
    """Returns the variance of the stratified mean divided by that of the mean of simple random
    samples, both summed over known models.

    Each model is left out of the rank by which it is stratified. If fewer than `FEWEST` known
    models differ from each other, they do not represent a new model, and the ratio is 1.
    """
    n, bounds = rank.n, samples.bound_strata(rank.n, budget)
    models = known.shape[0]
    if budget == n or models == 1:
        return 1.0
    sizes = np.diff(bounds)
    stratified, simple, digests = 0.0, 0.0, set()
    for model in range(0, models, -(-models // MODELS_FOR_DESIGN)):
        row = known.matrix(np.array([model]))[0]
        mask = row != UNKNOWN
        digests.add(hashlib.sha256(row).digest())
        rest = Rank(rank.total - (row == 1), rank.counts - mask)
        if not rest.counts.any():
            continue
        ctx.charge((6 + n.bit_length()) * n)
        filled = np.where(mask, row, rest.scores)[rest.order]
        means = np.add.reduceat(filled, bounds[:-1]) / sizes
        stratified += (sizes**2 * means * (1 - means)).sum() / n**2
        simple += filled.mean() * (1 - filled.mean()) / budget * (n - budget) / (n - 1)
    enough = simple and len(digests) >= intervals.FEWEST
    return float(stratified / simple) if enough else 1.0
