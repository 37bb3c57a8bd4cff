"""The relatedness of tasks, measured by nearest neighbours in a predictor's feature space.

The score of a candidate is the accuracy of a 5-nearest-neighbour classifier on its features, which
predicts the dev split of the current task from its train split (NEVIS'22, section 5); for a
multi-label task it is the mAP of the neighbours' label frequencies. Embedding all images for each
candidate, and the distances, are charged to the current phase. What changes the scores has a new
version in `nevis_stream.run_directory.environment`.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from nevis_stream import metrics
from nevis_stream.cost.counted import make_counted
from nevis_stream.learner import Context
from nevis_stream.learners.parts.augmentation import to_unit_range
from nevis_stream.learners.parts.model import (
    EVALUATION_BATCH,
    Network,
    choose_head_size,
    initialise_program,
)
from nevis_stream.streams.task import SINGLE_LABEL, LabelledImages, TaskView

_TILE = 1024  # images of each of the two splits whose distances are computed at a time


@dataclass(frozen=True)
class Neighbours:
    """Scores candidates.

    Attributes:
      neighbours: k.
      train_cap: largest number of training images that are embedded.
      dev_cap: largest number of dev images that are embedded.
    """

    neighbours: int = 5
    train_cap: int = 10_000
    dev_cap: int = 5_000

    def count_queries(self, task: TaskView) -> int:
        """Returns the number of dev images in a task's score."""
        return min(len(task.dev), self.dev_cap)

    def cost(self, network: Network, n_train: int, n_dev: int) -> int:
        """Returns the FLOPs of scoring a candidate with `n_train` and `n_dev` images."""
        n_references, n_queries = min(n_train, self.train_cap), min(n_dev, self.dev_cap)
        variables = jax.eval_shape(
            initialise_program(network, choose_head_size(1)), jax.ShapeDtypeStruct((4,), np.uint32)
        )
        images = jax.ShapeDtypeStruct(
            (EVALUATION_BATCH, network.resolution, network.resolution, 3), np.uint8
        )
        parameters, program = drop_head(variables), make_features_program(network)
        width = jax.eval_shape(program, parameters, images).shape[1]
        batches = -(-n_references // EVALUATION_BATCH) - (-n_queries // EVALUATION_BATCH)
        return batches * make_counted(program).flops(parameters, images) + _comparing(
            n_queries, n_references, width
        )

    def score(
        self, ctx: Context, task: TaskView, network: Network, variables: Mapping[str, Any]
    ) -> float:
        """Returns accuracy or mAP of the neighbours' votes in the feature space of `variables`.

        Higher is more related.
        """
        train, dev = (
            _space_evenly(task.train, self.train_cap),
            _space_evenly(task.dev, self.dev_cap),
        )
        references = embed(ctx, network, variables, train.images)
        queries = embed(ctx, network, variables, dev.images)
        k = min(self.neighbours, len(references))
        nearest = np.concatenate(
            [_nearest(references, queries[i : i + _TILE], k) for i in range(0, len(queries), _TILE)]
        )
        ctx.charge(_comparing(len(queries), len(references), references.shape[1]))
        votes = np.zeros((len(queries), task.num_classes), np.float32)
        for column in nearest.T:
            if task.kind == SINGLE_LABEL:
                votes[np.arange(len(queries)), train.labels[column]] += 1 / k
            else:
                votes += train.labels[column] / k
        metric = metrics.find_metric(task.kind)
        value = metric.aggregate(dev.labels, votes)
        return 0.0 if np.isnan(value) else float(1 - metric.to_error(value))


def _space_evenly(examples: LabelledImages, cap: int) -> LabelledImages:
    """Returns `cap` evenly spaced examples, or all if there are no more."""
    if len(examples) <= cap:
        return examples
    chosen = np.linspace(0, len(examples) - 1, cap).astype(int)
    return LabelledImages(examples.images.take(chosen), examples.labels[chosen])


@functools.cache
def make_features_program(network: Network, train: bool = True):
    """Returns f(variables, images uint8[b, r, r, 3]) → float32[b, features], the pooled output.

    For relatedness BatchNorm uses the statistics of the batch (`train`), as the public reference
    implementation does: the running ones describe the images of the earlier task.
    """

    def features(variables, images):
        images = to_unit_range(images)
        return network.features(
            variables["params"]["backbone"], variables["batch_stats"], images, train
        )[0]

    return features


def embed(
    ctx: Context, network: Network, variables: Mapping[str, Any], images: Any, train: bool = True
) -> np.ndarray:
    """Returns float32[n, features] of the evaluation views of all images.

    With `train`, BatchNorm uses the statistics of the batch, so the batches are drawn: where images
    are sorted by class, a batch's mean would carry the class and be subtracted. The order of the
    batches is always the same for n images. The last one is filled up with repeated images.
    """
    views = images.center_cropped(network.resolution)
    order = np.random.RandomState(0).permutation(len(views)) if train else np.arange(len(views))
    program = ctx.jit(make_features_program(network, train))
    parameters = jax.device_put(drop_head(variables))
    features = []
    for start in range(0, len(views), EVALUATION_BATCH):
        rows = order[np.arange(start, start + EVALUATION_BATCH) % len(views)]
        features.append(
            np.asarray(program(parameters, np.asarray(views[rows])))[: len(views) - start]
        )
    return np.concatenate(features)[np.argsort(order)]


def drop_head(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Returns variables without the head."""
    return {
        "params": {"backbone": variables["params"]["backbone"]},
        "batch_stats": variables["batch_stats"],
    }


def _comparing(n_queries: int, n_references: int, width: int) -> int:
    """Returns the FLOPs of all distances (products and norms); selecting the k is not counted."""
    return n_queries * n_references * (2 * width + 2)


def _nearest(references: np.ndarray, queries: np.ndarray, k: int) -> np.ndarray:
    """Returns int32[m, k]: the rows of `references` nearest to each of at most `_TILE` queries.

    Distances are Euclidean. All tiles have one size, so one program serves splits of every size.
    """
    best = np.full((_TILE, k), np.inf, np.float32), np.zeros((_TILE, k), np.int32)
    query_tile = _fill(queries)
    for start in range(0, len(references), _TILE):
        best = _nearer(
            best,
            query_tile,
            _fill(references[start : start + _TILE]),
            np.int32(start),
            np.int32(len(references)),
        )
    return np.asarray(best[1])[: len(queries)]


def _fill(rows: np.ndarray) -> np.ndarray:
    return np.pad(rows, ((0, _TILE - len(rows)), (0, 0)))


@jax.jit
def _nearer(
    best: tuple[jax.Array, jax.Array],
    queries: jax.Array,
    references: jax.Array,
    start: jax.Array,
    end: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Returns distances and rows of the nearest so far, including the tile that starts at `start`.

    Of several that are equally near, the first counts as nearer.
    """
    rows = start + jnp.arange(len(references), dtype=jnp.int32)
    distances = jnp.where(rows < end, (references**2).sum(1) - 2 * queries @ references.T, jnp.inf)
    distances = jnp.concatenate([best[0], distances], axis=1)
    rows = jnp.concatenate([best[1], jnp.broadcast_to(rows, (len(queries), len(rows)))], axis=1)
    nearest, places = jax.lax.top_k(-distances, best[0].shape[1])
    return -nearest, jnp.take_along_axis(rows, places, axis=1)
