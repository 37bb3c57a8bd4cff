"""Networks whose answers are averaged with those of the ridge regression.

A network is trained in one trial with fixed hyper-parameters, from the network of an earlier task
or from random parameters, and is evaluated on dev only before its first and after its last step.
The weight of its answers, at most 0.6, is that with the lowest error on images of dev, where the
ridge regression has leave-one-out answers.
"""

import functools
from typing import Any

import numpy as np

from nevis_stream.datasets.images import Images
from nevis_stream.learner import Context
from nevis_stream.learners.closed_form.learner import error_of
from nevis_stream.learners.parts.augmentation import Augmentation
from nevis_stream.learners.parts.baseline import train_trial
from nevis_stream.learners.parts.fit import Recipe
from nevis_stream.learners.parts.model import Network, predict_probabilities
from nevis_stream.storage.checkpoint import Tree
from nevis_stream.streams.task import SINGLE_LABEL, TaskView

_NETWORK = Network(
    "resnet", (("stage_sizes", (1, 1, 1)), ("stem", "strided"), ("width", 16)), resolution=32
)
_HYPER = {"learning_rate": 0.1, "label_smoothing": 0.1}
_MIN_AREA = 0.5  # of a crop; as in the budgets of few steps of the paper's learners
_WEIGHTS = np.arange(13) / 20  # of the network; the ridge regression has the rest
_LEAST = 1e-6  # smaller probabilities count as this


def train(
    ctx: Context, task: TaskView, start: Tree | None, steps: int, flip: bool
) -> tuple[Tree, dict[str, Any]]:
    """Returns a network trained on a task, and facts about its training.

    The network is {"variables", "outputs" (of its head), "classes" (int[classes], the output of
    each class)}; the facts are "step" (of the parameters that are kept: 0 or the last), "steps",
    "diverged_at" and "curve", as in docs/run-directory.md.

    Args:
      ctx: the FLOPs are charged to it.
      task: the task.
      start: the network of an earlier task, whose backbone training starts from; None: random.
      steps: number of updates.
      flip: whether training images are mirrored at random.
    """
    augmentation = Augmentation(crop=True, min_area=_MIN_AREA, flip=flip)
    trial = functools.partial(
        train_trial,
        task=task,
        backbone=start and start["variables"],
        recipe=Recipe(_NETWORK, steps, validate_every=steps, augmentation=augmentation),
        helpers=(),
    )
    (result,) = ctx.map(trial, [{"hyper": _HYPER}])
    count = task.num_classes
    network = {"variables": result["variables"], "outputs": count, "classes": np.arange(count)}
    facts = {name: result["info"][name] for name in ("steps", "diverged_at", "curve")}
    return network, facts | {"step": result["step"]}


def predict(ctx: Context, network: Tree, kind: str, images: Images) -> np.ndarray:
    """Returns float32[n, classes]: the network's probabilities."""
    outputs = predict_probabilities(
        ctx, _NETWORK, network["variables"], images, kind, network["outputs"]
    )
    return outputs[:, np.asarray(network["classes"])]


def average(
    ctx: Context, ridge: np.ndarray, network: np.ndarray, weight: float, kind: str
) -> np.ndarray:
    """Returns float32[n, classes]: probabilities whose logarithms are averaged.

    Of a single-label task they are normalised over the classes, otherwise over each label and its
    absence.

    Args:
      ctx: a product, a sum and a division for each probability are charged to it, and the
        comparisons with `_LEAST`; powers are not counted.
      ridge: float32[n, classes], probabilities.
      network: float32[n, classes], probabilities.
      weight: of the network, from 0 to 1.
      kind: of the task.
    """

    def mean(a, b):
        return np.maximum(a, _LEAST) ** (1 - weight) * np.maximum(b, _LEAST) ** weight

    ctx.charge((5 if kind == SINGLE_LABEL else 10) * ridge.size)
    yes = mean(ridge, network)
    if kind == SINGLE_LABEL:
        return np.asarray(yes / yes.sum(axis=1, keepdims=True), np.float32)
    return np.asarray(yes / (yes + mean(1 - ridge, 1 - network)), np.float32)


def best_weight(
    ctx: Context, ridge: np.ndarray, network: np.ndarray, labels: np.ndarray, kind: str
) -> float:
    """Returns the lowest of the network's weights with the lowest error.

    Errors, not likelihoods, decide: the likeliest weight is too high, since averaging also corrects
    how sure the ridge regression is (decision 0053).

    Args:
      ctx: the averages are charged to it.
      ridge: float32[j, classes], leave-one-out probabilities.
      network: float32[j, classes].
      labels: int32[j] or uint8[j, labels].
      kind: of the task.

    Returns:
      0 without images, or where the error is undefined.
    """
    errors = [
        error_of(kind, labels, average(ctx, ridge, network, weight, kind)) for weight in _WEIGHTS
    ]
    return 0.0 if None in errors else float(_WEIGHTS[int(np.argmin(errors))])
