"""Policies that ask one sample of each of K clusters: the one nearest to the cluster's centroid.

The same samples are asked of all models. A cell represents the samples that are nearest to it, so
weighted means weigh it by their number, or by the sum of their weights ("anchor points" of Maia
Polo et al., tinyBenchmarks, 2024, section 3, which counts the members of its K-means cluster).
"""

from collections.abc import Callable

import numpy as np

from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation import response
from nevis_stream.dynamic_evaluation.known_models import KnownModels
from nevis_stream.dynamic_evaluation.policy import Key, Plan, Policy
from nevis_stream.dynamic_evaluation.response import Items, ResponsePosterior
from nevis_stream.errors import BadInput
from nevis_stream.queries.matrix import is_observed, numbers, sample_means
from nevis_stream.queries.oracle import Query, Responses
from nevis_stream.queries.samples import SampleFacts, numpy_generator
from nevis_stream.storage.checkpoint import Tree

ROUNDS = 20  # of K-means, at most
MODELS = 512  # known models whose values describe a sample, at most

Vectors = Callable[[KnownModels, Items | None, object, Compute], np.ndarray]


class Clusters(Policy):
    """K-means clusters of vectors that describe the samples.

    Args:
      vectors: takes known models, the predictor's item response model or None, a JAX key and a
        context, and returns float32[n, d].
      about: one line for people.
    """

    out_of_core = False

    def __init__(self, vectors: Vectors, about: str):
        self.vectors, self.about = vectors, about

    def check(self, facts: SampleFacts) -> None:
        """Refuses samples without features where features describe them."""
        if self.vectors is by_features and facts.features is None:
            raise BadInput(
                "clusters_features: not every sample has features; import them with the values"
                " (--features=FILE.npz), or use clusters_values or clusters_items."
            )

    def fit(self, known: KnownModels, beliefs: ResponsePosterior, key: Key, ctx: Compute) -> Tree:
        """Describes the samples."""
        self.check(known.facts)
        vectors = self.vectors(known, beliefs.items, key, ctx)
        return {"vectors": vectors, "weights": known.facts.weights}

    def design(
        self, tree: Tree, beliefs: ResponsePosterior, budget: int, key: Key, ctx: Compute
    ) -> Tree:
        """Makes the clusters."""
        random = numpy_generator(key)
        samples, fractions = anchors(tree["vectors"], tree["weights"], budget, random, ctx)
        return {"samples": samples, "shares": fractions}

    def next(self, plan: Plan, answers: Responses, key: Key, ctx: Compute) -> Query:
        """Returns the samples of all clusters."""
        return fixed(plan.design, len(answers.values))


def fixed(design: Tree, models: int) -> Query:
    """Returns the same cells for m models: the `samples` of a design, int64[b], with the
    fractions of all samples that they represent, float64[b].
    """
    shape = (models, len(design["samples"]))
    samples, fractions = (np.broadcast_to(design[name], shape) for name in ("samples", "shares"))
    return Query(samples, fractions=fractions)


def anchors(
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
      vectors: float32[n, d]; equal ones are told apart by nothing, so clusters may be empty.
      weights: float64[n], of the samples in the benchmark's mean.
      count: number of clusters.
      random: starts K-means (k-means++).
      ctx: charged 3 n d `count` FLOPs per round.
    """
    import warnings

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
    together = np.bincount(nearest, weights, len(distinct)) / np.bincount(same.ravel())
    return samples, together[same.ravel()] / (weights[samples] * len(vectors))


def by_values(known: KnownModels, items: Items | None, key: Key, ctx: Compute) -> np.ndarray:
    """Describes a sample by the known models' values; holes are the sample's mean."""
    rows = None
    if known.shape[0] > MODELS:
        random = numpy_generator(key)
        rows = np.sort(random.choice(known.shape[0], MODELS, replace=False))
    values = known.matrix(rows)
    filled = np.where(is_observed(values), numbers(values), sample_means(values))
    return filled.T.astype(np.float32)


def by_items(known: KnownModels, items: Items | None, key: Key, ctx: Compute) -> np.ndarray:
    """Describes a sample by its parameters under an item response model."""
    if items is None:
        items, _ = response.fit(known.matrix(), 1, key, ctx)
    return np.asarray(items.mean, np.float32)


def by_features(known: KnownModels, items: Items | None, key: Key, ctx: Compute) -> np.ndarray:
    """Describes a sample by its features."""
    return np.asarray(known.facts.features, np.float32)
