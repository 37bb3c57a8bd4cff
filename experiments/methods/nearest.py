"""Predicts the values of the known model that agrees best on the asked samples (CopyNearest&Expand
of the Sort & Search paper: its search without its sorting).
"""

import numpy as np

from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation.method import Prediction, ScorePredictor
from nevis_stream.dynamic_evaluation.policy import Key, Policy
from nevis_stream.dynamic_evaluation.sorting import rank_samples
from nevis_stream.queries.matrix import Matrix
from nevis_stream.queries.oracle import Responses, answer_zeros
from nevis_stream.queries.samples import is_observed
from nevis_stream.storage.checkpoint import Tree

HELD_OUT = 250  # at most this many known models are left out in turn


class Nearest(ScorePredictor):
    """Copies the nearest known model; its holes are filled with the outcome of most models."""

    about = "values of the nearest known model"
    takes_scores = True
    out_of_core = True
    takes_all = True

    def fit(self, known: Matrix, key: Key, ctx: Compute) -> Tree:
        """Stores the values that fill holes: the majority's outcome, or the mean score."""
        means = rank_samples(known, ctx).scores
        return {"fill": means.astype(np.float32) if known.scores else (means >= 0.5).view(np.uint8)}

    def predict(
        self, tree: Tree, budget_fit: Tree, known: Matrix, answers: Responses, ctx: Compute
    ) -> Prediction:
        """Copies the nearest model, the first of several equally near ones."""
        if (answers.samples == answers.samples[0]).all():
            cells = _read_filled(tree, known, None, answers.samples[0])
            distance = _compute_distances(answers.values, cells, ctx)
        else:
            distance = np.concatenate(
                [
                    _compute_distances(row[None], _read_filled(tree, known, None, samples), ctx)
                    for row, samples in zip(answers.values, answers.samples, strict=True)
                ]
            )
        return Prediction(_read_filled(tree, known, distance.argmin(axis=1)))

    def compute_errors(
        self, tree: Tree, known: Matrix, policy: Policy, budget: int, key: Key, ctx: Compute
    ) -> np.ndarray | None:
        """Returns the errors of known models' means, each predicted by the nearest model of another
        group, float64 of at most 250 models; None for weighted data sets and policies that need
        new fits (see `SortAndSearch.compute_errors`).
        """
        n, models = known.shape[1], known.shape[0]
        weighted = known.facts.dataset_weights is not None
        whole = known.facts.image is not None  # the other labels are asked too
        if policy.adaptive or not policy.representative or weighted or whole:
            return None
        groups = np.arange(models)
        if known.groups is not None:
            groups = np.unique(known.groups, return_inverse=True)[1]
        if len(set(groups.tolist())) == 1:
            return np.empty(0)

        posterior = self.make_posterior(tree, known, ctx)
        plan = policy.plan(policy.fit(known, posterior, key, ctx), posterior, budget, key, ctx)
        samples = policy.ask(plan, answer_zeros, 1, key, ctx).samples[0]
        cells, (total, counts) = _read_filled(tree, known, None, samples), known.row_sums()
        rows = np.flatnonzero(counts > 0)[:: -(-models // HELD_OUT)]
        distance = _compute_distances(cells[rows], cells, ctx)
        distance[groups[rows][:, None] == groups] = np.inf
        near = distance.argmin(axis=1)
        means = {
            row: _read_filled(tree, known, np.array([row])).mean()
            for row in np.unique(near).tolist()
        }
        kept = (cells[rows].astype(np.float64) - cells[near]).sum(axis=1) / n
        estimates = np.array([means[row] for row in near.tolist()]) + kept
        return total[rows] / counts[rows] - estimates


def _read_filled(
    tree: Tree, known: Matrix, rows: np.ndarray | None, samples: np.ndarray | None = None
) -> np.ndarray:
    fill = tree["fill"] if samples is None else tree["fill"][samples]
    if rows is None:
        values = known.matrix(None, samples)
    else:
        each, place = np.unique(rows, return_inverse=True)
        values = known.matrix(each, samples)[place]
    return np.where(is_observed(values), values, fill).astype(fill.dtype)


def _compute_distances(values: np.ndarray, theirs: np.ndarray, ctx: Compute) -> np.ndarray:
    """Returns the squared distances, float32[m, m0], of models with values [m, b] and [m0, b]."""
    values, theirs = values.astype(np.float32), theirs.astype(np.float32)
    ctx.charge(2 * values.size * len(theirs) + 2 * (values.size + theirs.size))
    return (values**2).sum(axis=1)[:, None] - 2 * values @ theirs.T + (theirs**2).sum(axis=1)
