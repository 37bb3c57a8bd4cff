"""Fitting one model to one task with given hyper-parameters: the paper's training recipe (NEVIS'22, section 4)."""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from learners.parts.augmentation import Augmentation
from learners.parts.model import (
    Network,
    TaskShape,
    begin,
    head_size,
    predict_probabilities,
    step_program,
    targets,
)
from learners.parts.schedule import batch_size, cosine_rates
from learners.parts.training_data import AUXILIARY_BATCH
from nevis_stream import metrics
from nevis_stream.checkpoint import Tree, to_host
from nevis_stream.errors import RunWarning
from nevis_stream.learner import Context
from nevis_stream.task import TaskView

_STORED_SCALE = 1.25  # stored pictures are this much larger than the network's input


@dataclass(frozen=True)
class Recipe:
    """How a model is trained.

    Attributes:
      network: backbone and resolution.
      steps: number of updates.
      validate_every: updates between two looks at the dev split.
      augmentation: training views.
      largest_batch: B of eq. 4.
      warmup_share: share of the updates in which the learning rate rises.
      momentum: of Nesterov's method.
      weight_decay: L2 on kernels.
    """

    network: Network
    steps: int
    validate_every: int
    augmentation: Augmentation = Augmentation()
    largest_batch: int = 512
    warmup_share: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 1e-4

    @property
    def stored_size(self) -> int:
        """Side of the stored training pictures in pixels."""
        return math.ceil(self.network.resolution * _STORED_SCALE)

    def step(self, classes: int, helpers: Sequence[int] = ()):
        """Returns the training-step program for a task with so many classes, and auxiliary tasks with so many."""
        heads = tuple(head_size(count) for count in helpers)
        return step_program(
            self.network, head_size(classes), self.augmentation, self.momentum, self.weight_decay, heads
        )


class Batches:
    """Epoch after epoch of shuffled sample numbers; what step t gets depends on the seed and t alone."""

    def __init__(self, examples: int, size: int, seed: int):
        self._examples, self._size, self._seed = examples, size, seed
        self._orders: dict[int, np.ndarray] = {}

    def __call__(self, step: int) -> np.ndarray:
        """Returns int[size] sample numbers of one step, reaching into the next epoch where one ends."""
        places = np.arange(step * self._size, (step + 1) * self._size)
        epochs, inside = np.divmod(places, self._examples)
        return np.concatenate([self._order(epoch)[inside[epochs == epoch]] for epoch in np.unique(epochs)])

    def _order(self, epoch: int) -> np.ndarray:
        if epoch not in self._orders:
            self._orders = {e: order for e, order in self._orders.items() if e == epoch - 1}
            words = [self._seed & 0xFFFFFFFF, self._seed >> 32, int(epoch)]
            self._orders[epoch] = np.random.RandomState(words).permutation(self._examples)
        return self._orders[epoch]


def dev_error(labels: np.ndarray, probabilities: np.ndarray, kind: str) -> float:
    """Error rate, or 1 - mAP; where mAP is undefined (no positive in dev), the mean error over labels at 0.5.

    The paper's code selects multi-label models by the latter; we select by what is judged.
    """
    metric = metrics.for_kind(kind)
    value = metric.aggregate(labels, probabilities)
    if math.isnan(value):
        return float(1 - metric.per_sample(labels, probabilities).mean())
    return float(metric.to_error(value))


def fit(
    ctx: Context,
    task: TaskView,
    variables: Mapping[str, Any],
    hyper: Mapping[str, float],
    recipe: Recipe,
    helpers: Sequence[TaskView] = (),
) -> Tree:
    """Trains from `variables` and returns the parameters with the lowest dev error (the last such, where several tie).

    The start counts as a candidate too, so a trial whose loss stops being finite still returns something: it ends at the
    next look at the dev split. Positions are offered for saving at each look.

    Args:
      ctx: context of the trial.
      task: the current task.
      variables: {"params": {"backbone", "head"}, "batch_stats"} to start from; with helpers also their heads, "helpers": {"0",
        …}, which are dropped at the end.
      hyper: `learning_rate`, `label_smoothing` and, with helpers, `auxiliary_weight`.
      recipe: everything else.
      helpers: auxiliary tasks, of which each step sees a batch of 64.

    Returns:
      {"variables", "step" (of the best look), "info" (see docs/run-directory.md)}.
    """
    stored, sizes = task.train.images.banded(recipe.stored_size), task.train.images.sizes
    batches = Batches(len(task.train), batch_size(len(task.train), recipe.largest_batch), ctx.seed)
    rates = cosine_rates(hyper["learning_rate"], recipe.steps, recipe.warmup_share)
    step = ctx.jit(recipe.step(task.num_classes, [helper.num_classes for helper in helpers]), donate_argnums=0)
    others = [_batches_of(helper, number, ctx.seed, recipe) for number, helper in enumerate(helpers)]
    weight = np.float32(hyper.get("auxiliary_weight", 0))
    smoothing, shape = np.float32(hyper["label_smoothing"]), TaskShape.of(task.kind, task.num_classes)
    key = ctx.key

    def look(carry) -> float:
        with ctx.phase("validate"):
            answers = predict_probabilities(ctx, recipe.network, carry, task.dev.images, task.kind, task.num_classes)
        return dev_error(task.dev.labels, answers, task.kind) if np.isfinite(answers).all() else math.inf

    resumed = ctx.restore()
    if resumed:
        start, saved = resumed
        carry = saved["carry"]
        best, curve = saved["best"], saved["curve"]
    else:
        start = 0
        carry = begin(variables)
        error = look(carry)
        curve = [[0, None, _rounded(error)]]
        best = {"step": 0, "error": error, "variables": _copy(carry)}
    diverged = False
    for index in range(start, recipe.steps):
        picked = batches(index)
        carry = step(
            carry,
            stored[picked],
            sizes[picked],
            targets(task.train.labels[picked], task.kind, task.num_classes),
            key,
            np.int32(index),
            rates[index],
            smoothing,
            shape,
            *((tuple(other(index) for other in others), weight) if others else ()),
        )
        done = index + 1
        if done % recipe.validate_every and done != recipe.steps:
            continue
        ctx.progress(done, recipe.steps)
        if int(carry["finite_steps"]) < done:
            diverged = int(carry["finite_steps"])
            warnings.warn(
                f"task {task.task_id!r}, trial {ctx.trial}: the loss was not finite at step {diverged + 1} of {recipe.steps} "
                f"(learning rate {hyper['learning_rate']:.3g}); it ends, its parameters of step {best['step']} are kept.",
                RunWarning,
                stacklevel=2,
            )
            break
        error = look(carry)
        curve.append([done, _rounded(float(carry["loss_sum"]) / (done - curve[-1][0])), _rounded(error)])
        carry["loss_sum"] = np.float32(0)
        if error <= best["error"]:
            best = {"step": done, "error": error, "variables": _copy(carry)}
        ctx.checkpoint(done, lambda: {"carry": carry, "best": best, "curve": curve})  # noqa: B023 - called at once
    return {
        "variables": best["variables"],
        "step": best["step"],
        "info": {
            "hyper": dict(hyper),
            "steps": done if recipe.steps else 0,
            "dev_error": _rounded(best["error"]),
            "diverged": diverged,
            "curve": curve,
        },
    }


def _batches_of(task: TaskView, number: int, seed: int, recipe: Recipe):
    """Returns f(step) → (stored, sizes, target, shape) of one auxiliary task."""
    stored, sizes = task.train.images.banded(recipe.stored_size), task.train.images.sizes
    batches = Batches(len(task.train), AUXILIARY_BATCH, (seed + 1 + number) & (2**63 - 1))
    shape = TaskShape.of(task.kind, task.num_classes)

    def batch(step: int):
        picked = batches(step)
        return stored[picked], sizes[picked], targets(task.train.labels[picked], task.kind, task.num_classes), shape

    return batch


def _copy(carry: Mapping[str, Any]) -> Tree:
    """The parameters as numpy: the step donates its buffers, so they cannot be kept on the device."""
    params = {name: jax.tree.map(np.array, carry["params"][name]) for name in ("backbone", "head")}
    return to_host({"params": params, "batch_stats": jax.tree.map(np.array, carry["batch_stats"])})


def _rounded(value: float) -> float | None:
    """Seven digits are what float32 holds; infinity has no place in JSON."""
    return float(f"{value:.7g}") if math.isfinite(value) else None
