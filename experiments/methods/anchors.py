"""Policies that ask the same samples of all models, chosen by the known models' values on them: the
anchors of clusters, anchors optimised for a weighted mean, and a greedy combinatorial choice.

*Clusters*: one sample of each of K clusters, the one nearest to the cluster's centroid. A cell
represents the samples that are nearest to it, so weighted means weigh it by their number, or by the
sum of their weights ("anchor points" of Maia Polo et al., tinyBenchmarks, 2024, section 3, which
counts the members of its K-means cluster).

*Optimised anchors*: those with which linear weights predict the known models' means best (after
SparseEval, Zhang et al. 2026). As in the published method, the first anchors are nearest to the
centroids of clusters, and then the least important anchor is exchanged for the most promising
candidate, again and again. The two scores are ours: an anchor's importance is the size of its
weight times its standard deviation, a candidate's promise its correlation with the error that the
anchors leave. So are the linear weights, and the test that an exchange must pass: it reduces the
leave-one-out error.

*Combinatorial choice*: one after the other the sample with which the known models' other values are
predicted best (active evaluation acquisition, algorithm 1 and equation 4). The loss of a set of
samples is the mean of the known models' expected squared errors, bias² plus variance, in all cells.
Algorithm 1 tries every sample in each step, which takes K M N predictions of N cells; here some are
drawn and the best of them is taken (stochastic greedy, Mirzasoleiman et al. 2015), and of many
samples a random part stands for all.
"""

import warnings
from collections.abc import Callable, Sequence

import numpy as np

from nevis_stream.array_types import Float, Int
from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation import response
from nevis_stream.dynamic_evaluation.known_models import draw_models
from nevis_stream.dynamic_evaluation.policy import Key, Plan, Policy
from nevis_stream.dynamic_evaluation.response import Items, ResponsePosterior
from nevis_stream.errors import BadInput
from nevis_stream.experiments.methods import anchor_weights
from nevis_stream.queries.matrix import Matrix
from nevis_stream.queries.oracle import Query, Responses
from nevis_stream.queries.samples import (
    SampleFacts,
    fill_unknown,
    is_observed,
    make_numpy_generator,
)
from nevis_stream.storage.checkpoint import Tree

ROUNDS = 20  # iterations of K-means, at most
MODELS = 512  # known models, at most, whose values describe a sample

Describe = Callable[[Matrix, Items | None, object, Compute], np.ndarray]


class Clusters(Policy):
    """Asks the sample nearest to the centroid of each K-means cluster of vectors that describe the
    samples.

    Args:
      describe: takes known models, the predictor's item response model or None, a JAX key and a
        context, and returns these vectors, float32[n, d].
      about: one line for people.
    """

    out_of_core = False

    def __init__(self, describe: Describe, about: str):
        self.describe, self.about = describe, about

    def check(self, facts: SampleFacts) -> None:
        """Refuses samples without features where features describe them."""
        if self.describe is describe_by_features and facts.features is None:
            raise BadInput(
                "clusters_features: not every sample has features; import them with the values"
                " (--features=FILE.npz), or use clusters_values or clusters_items."
            )

    def fit(self, known: Matrix, posterior: ResponsePosterior, key: Key, ctx: Compute) -> Tree:
        """Describes the samples."""
        self.check(known.facts)
        vectors = self.describe(known, posterior.items, key, ctx)
        return {"vectors": vectors, "weights": known.facts.weights}

    def design(
        self, tree: Tree, posterior: ResponsePosterior, budget: int, key: Key, ctx: Compute
    ) -> Tree:
        """Makes the clusters."""
        random = make_numpy_generator(key)
        samples, fractions = choose_anchors(tree["vectors"], tree["weights"], budget, random, ctx)
        return {"samples": samples, "shares": fractions}

    def next(self, plan: Plan, answers: Responses, key: Key, ctx: Compute) -> Query:
        """Returns the samples of all clusters."""
        return repeat_samples(plan.design, len(answers.values))


def repeat_samples(design: Tree, models: int) -> Query:
    """Returns the same cells for m models: the `samples` of a design, int64[b], with the
    fractions of all samples that they represent, float64[b], if it has these.
    """
    shape = (models, len(design["samples"]))
    fractions = np.broadcast_to(design["shares"], shape) if "shares" in design else None
    return Query(np.broadcast_to(design["samples"], shape), fractions=fractions)


def choose_anchors(
    vectors: np.ndarray,
    weights: np.ndarray,
    count: int,
    random: np.random.Generator,
    ctx: Compute,
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the sample nearest to each of `count` centroids, int64[count], none twice, and the
    fraction of all samples that it represents, float64[count]: those that are nearest to it.

    A fraction counts samples in units of the anchor's own weight, because means multiply the
    fraction of an observed sample by its weight.

    Args:
      vectors: float32[n, d], one for each sample; if some are equal, clusters may be empty.
      weights: float64[n], of the samples in the benchmark's mean.
      count: number of clusters.
      random: starts K-means (k-means++).
      ctx: charged 3 n d `count` FLOPs per round.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    kmeans = KMeans(count, n_init=1, max_iter=ROUNDS, random_state=int(random.integers(2**31)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct vectors than clusters
        kmeans.fit(vectors)
    ctx.charge(3 * vectors.size * count * (kmeans.n_iter_ + 2))
    sizes = np.bincount(kmeans.labels_, minlength=count)
    free, samples = np.ones(len(vectors), bool), np.empty(count, np.int64)
    for cluster in np.argsort(-sizes, kind="stable"):
        away = ((vectors - kmeans.cluster_centers_[cluster]) ** 2).sum(axis=1)
        samples[cluster] = np.where(free, away, np.inf).argmin()
        free[samples[cluster]] = False
    # with fewer distinct vectors than clusters, several anchors have the same vector
    distinct, same = np.unique(vectors[samples], axis=0, return_inverse=True)
    nearest = ((distinct**2).sum(axis=1) - 2 * vectors @ distinct.T).argmin(axis=1)
    represented = np.bincount(nearest, weights, len(distinct)) / np.bincount(same.ravel())
    return samples, represented[same.ravel()] / (weights[samples] * len(vectors))


def describe_by_values(known: Matrix, items: Items | None, key: Key, ctx: Compute) -> np.ndarray:
    """Describes each sample by the known models' values, float32[n, d]; holes get its mean."""
    return _read_filled(known, MODELS, key).T


def _read_filled(known: Matrix, most: int, key: Key) -> Float[np.ndarray, "models samples"]:
    """Returns the values of known models, of which `most` are drawn if there are more; holes get
    the sample's mean.
    """
    values = known.matrix(draw_models(known, most, key))
    filled = np.where(
        is_observed(values), fill_unknown(values), anchor_weights.sample_means(values)
    )
    return filled.astype(np.float32)


def describe_by_items(known: Matrix, items: Items | None, key: Key, ctx: Compute) -> np.ndarray:
    """Describes each sample by its parameters under an item response model, float32[n, 1 + k]."""
    if items is None:
        items, _ = response.fit(known.matrix(), 1, key, ctx)
    return np.asarray(items.mean, np.float32)


def describe_by_features(known: Matrix, items: Items | None, key: Key, ctx: Compute) -> np.ndarray:
    """Describes each sample by its features, float32[n, d]."""
    return np.asarray(known.facts.features, np.float32)


EXCHANGES = 100  # attempts, at most
PATIENCE = 10  # attempts without success


class SparseAnchors(Policy):
    """Asks the optimised anchors (see the module) of all models."""

    about = "anchors that are optimised for linear weights of them; use with anchor_weights"
    out_of_core = False

    def fit(self, known: Matrix, posterior: ResponsePosterior, key: Key, ctx: Compute) -> Tree:
        """Describes the samples by the known models' values."""
        vectors = describe_by_values(known, None, key, ctx)
        weights = known.facts.weights.astype(np.float32)
        return anchor_weights.centre(known, key, ctx) | {"vectors": vectors, "weights": weights}

    def design(
        self, tree: Tree, posterior: ResponsePosterior, budget: int, key: Key, ctx: Compute
    ) -> Tree:
        """Chooses the anchors."""
        rows = tree["rows"].astype(np.float64)
        benchmark, spread = rows @ tree["weights"], rows.std(axis=0)
        random = make_numpy_generator(key)
        samples, _ = choose_anchors(tree["vectors"], tree["weights"], budget, random, ctx)

        def fit(samples: Int[np.ndarray, " anchors"]) -> anchor_weights.Weights:
            return anchor_weights.fit_weights(rows[:, samples], benchmark, benchmark[:, None], ctx)

        current, failures = fit(samples), 0
        refused: set[int] = set()
        for _ in range(EXCHANGES):
            importance = np.abs(current.values[:, 0]) * spread[samples]
            promise = np.abs(current.left_out @ rows) / np.maximum(spread, 1e-9)
            ctx.charge(2 * rows.size)
            promise[[*samples, *refused]] = -1
            if promise.max() <= 0:
                break
            candidate = int(promise.argmax())
            changed = samples.copy()
            changed[importance.argmin()] = candidate
            attempt = fit(changed)
            if (attempt.left_out**2).sum() < (current.left_out**2).sum():
                samples, current, failures = changed, attempt, 0
                refused.clear()
            else:
                refused.add(candidate)
                failures += 1
            if failures == PATIENCE:
                break
        return {"samples": np.sort(samples)}

    def next(self, plan: Plan, answers: Responses, key: Key, ctx: Compute) -> Query:
        """Returns all anchors."""
        return repeat_samples(plan.design, len(answers.values))


MODELS_TRIED = 32  # known models, at most, whose errors make up the loss, drawn at random
SAMPLES = 2048  # samples, at most, that may be chosen and whose errors make up the loss, drawn too
CANDIDATES = 16  # of these samples, drawn anew in each step, are tried


class Combinatorial(Policy):
    """Asks the combinatorial choice (see the module) of all models."""

    about = "greedily the samples from which the known models' values are predicted best"
    out_of_core = False
    needs = frozenset({"moments"})

    def fit(self, known: Matrix, posterior: ResponsePosterior, key: Key, ctx: Compute) -> Tree:
        """Draws known models; holes get the sample's mean."""
        return {"values": _read_filled(known, MODELS_TRIED, key)}

    def design(
        self, tree: Tree, posterior: ResponsePosterior, budget: int, key: Key, ctx: Compute
    ) -> Tree:
        """Chooses the samples."""
        random, columns = make_numpy_generator(key), np.arange(posterior.n)
        if (most := max(SAMPLES, budget)) < posterior.n:
            columns = np.sort(random.choice(posterior.n, most, replace=False))
        values, part = tree["values"][:, columns], posterior.part(columns)
        chosen: list[int] = []  # of these columns
        for _ in range(budget):
            free = np.setdiff1d(np.arange(part.n), chosen)
            tried = random.choice(free, min(CANDIDATES, len(free)), replace=False)
            losses = self._compute_losses(values, chosen, tried, part, ctx)
            chosen.append(int(tried[losses.argmin()]))
        return {"samples": columns[chosen]}

    def _compute_losses(
        self,
        values: Float[np.ndarray, "models samples"],
        chosen: Sequence[int],
        tried: Sequence[int],
        posterior: ResponsePosterior,
        ctx: Compute,
    ) -> np.ndarray:
        """Returns the loss after each candidate, float64[c]: the sum of the expected squared errors
        of cells that are not asked; weights of data sets are left out, as in the paper.

        Args:
          values: float32[m0, n], of the known models.
          chosen: samples, in the order of their choice.
          tried: int64[c], the candidates.
          posterior, ctx: as of `design`.
        """
        models, n = values.shape
        sets = np.array([[*chosen, sample] for sample in tried], np.int64)  # [c, b]
        samples = np.repeat(sets, models, axis=0)
        truth = np.tile(values, (len(tried), 1))
        answers = Responses(Query(samples), np.take_along_axis(truth, samples, axis=1))
        mean, variance = posterior.moments(answers)
        loss = (mean - truth) ** 2 + variance
        np.put_along_axis(loss, samples, 0, axis=1)
        ctx.charge(4 * loss.size)
        return loss.sum(axis=1, dtype=np.float64).reshape(len(tried), models).sum(axis=1)

    def next(self, plan: Plan, answers: Responses, key: Key, ctx: Compute) -> Query:
        """Returns all samples."""
        return repeat_samples(plan.design, len(answers.values))
