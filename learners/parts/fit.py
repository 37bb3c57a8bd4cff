"""Fitting one model to one task with given hyper-parameters: the paper's training recipe (NEVIS'22,
section 4).
"""

import dataclasses
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from learners.parts.augmentation import Augmentation
from learners.parts.feed import Feed
from learners.parts.model import Network, begin, head_size, predict_probabilities, step_program
from learners.parts.schedule import SCHEDULES, batch_size
from learners.parts.training_data import AUXILIARY_BATCH
from nevis_stream import metrics
from nevis_stream.errors import RunWarning
from nevis_stream.learner import Context
from nevis_stream.run_directory.checkpoint import Tree, to_host
from nevis_stream.seeds import key_of
from nevis_stream.streams.task import TaskView

MAIN, OTHER = "main", "other"
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
      schedule: of the learning rate: "cosine" or "piecewise".
      batch: examples a step; None: by eq. 4.
      other: the network that a search over architectures sets against `network`, or None.
    """

    network: Network
    steps: int
    validate_every: int
    augmentation: Augmentation = Augmentation()
    largest_batch: int = 512
    warmup_share: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 1e-4
    schedule: str = "cosine"
    batch: int | None = None
    other: Network | None = None

    def of(self, hyper: Mapping[str, Any]) -> "Recipe":
        """Returns the recipe of one trial: with the choices that its hyper-parameters make."""
        named = {name: hyper[name] for name in ("schedule", "batch") if name in hyper}
        looks = {name: hyper[name] for name in ("crop", "flip") if name in hyper}
        network = self.other if hyper.get("network") == OTHER else self.network
        return dataclasses.replace(
            self,
            **named,
            network=network,
            augmentation=dataclasses.replace(self.augmentation, **looks),
        )

    def batch_of(self, examples: int) -> int:
        """Returns how many examples a step has, for a task with so many."""
        return self.batch or batch_size(examples, self.largest_batch)

    @property
    def stored_size(self) -> int:
        """Side of the stored training pictures in pixels."""
        return math.ceil(self.network.resolution * _STORED_SCALE)

    def step(self, classes: int, helpers: Sequence[int] = ()):
        """Returns the training-step program for a task with so many classes, and auxiliary tasks
        with so many.
        """
        heads = tuple(head_size(count) for count in helpers)
        return step_program(
            self.network,
            head_size(classes),
            self.augmentation,
            self.momentum,
            self.weight_decay,
            heads,
        )


def dev_error(labels: np.ndarray, probabilities: np.ndarray, kind: str) -> float:
    """Error rate, or 1 - mAP; where mAP is undefined (no positive in dev), the mean error over
    labels at 0.5.

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
    variables: Mapping[str, Any] | None,
    hyper: Mapping[str, Any],
    recipe: Recipe,
    helpers: Sequence[TaskView] = (),
    position: Tree | None = None,
    until: int | None = None,
) -> Tree:
    """Trains from `variables` and returns the parameters with the lowest dev error (the last such,
    where several tie).

    The start counts as a candidate too, so a trial whose loss stops being finite still returns
    something: it ends at the next look at the dev split. Positions are offered for saving at each
      look.

    Args:
      ctx: context of the trial.
      task: the current task.
      variables: {"params": {"backbone", "head"}, "batch_stats"} to start from; with helpers also
        their heads, "helpers": {"0", …}, which are dropped at the end. Not needed with a position.
      hyper: `learning_rate`, `label_smoothing` and, with helpers, `auxiliary_weight`.
      recipe: everything else.
      helpers: auxiliary tasks, of which each step sees a batch of 64.
      position: where an earlier call with `until` stopped, to go on from there as if it had not.
      until: stop after so many steps (a multiple of `validate_every`); the schedule is that of all
        steps.

    Returns:
      {"variables", "step" (of the best look), "info" (see docs/run-directory.md)}, and "position"
      where `until` ended it.
    """
    seed = position["seed"] if position else ctx.seed
    stop = min(until or recipe.steps, recipe.steps)
    key, rates = (
        key_of(seed),
        SCHEDULES[recipe.schedule](hyper["learning_rate"], recipe.steps, recipe.warmup_share),
    )
    step = ctx.jit(
        recipe.step(task.num_classes, [helper.num_classes for helper in helpers]), donate_argnums=0
    )
    feed = Feed(ctx, task, recipe.stored_size, recipe.batch_of(len(task.train)), seed)
    others = [
        Feed(ctx, helper, recipe.stored_size, AUXILIARY_BATCH, (seed + 1 + number) & (2**63 - 1))
        for number, helper in enumerate(helpers)
    ]
    weight, smoothing = (
        np.float32(hyper.get("auxiliary_weight", 0)),
        np.float32(hyper["label_smoothing"]),
    )

    def look(carry) -> float:
        return look_at_dev(ctx, task, recipe.network, carry)

    resumed = ctx.restore()
    if resumed or position:
        start, saved = resumed or (position["step"], position)
        carry, best, curve = saved["carry"], saved["best"], saved["curve"]
    else:
        start, carry = 0, begin(variables)
        error = look(carry)
        curve = [[0, None, rounded(error)]]
        best = {"step": 0, "error": error, "variables": _copy(carry)}
    for row in curve:
        log_row(ctx, row, rates)
    carry, done, diverged = ctx.replicate(carry), start, False
    try:
        for index in range(start, stop):
            batch = feed(index)
            auxiliary = (
                (tuple(other(index).astuple() for other in others), weight) if others else ()
            )
            carry = step(
                carry,
                batch.stored,
                batch.sizes,
                batch.target,
                key,
                np.int32(index),
                rates[index],
                smoothing,
                batch.shape,
                *auxiliary,
            )
            done = index + 1
            if done % recipe.validate_every and done != recipe.steps:
                continue
            ctx.progress(done, recipe.steps)
            diverged = diverged_at(
                carry,
                done,
                recipe,
                hyper,
                f"task {task.task_id!r}, trial {ctx.trial}",
                best["step"],
            )
            if diverged is not False:
                break
            error = look(carry)
            curve.append(
                [done, rounded(float(carry["loss_sum"]) / (done - curve[-1][0])), rounded(error)]
            )
            log_row(ctx, curve[-1], rates)
            carry["loss_sum"] = np.float32(0)
            if error <= best["error"]:
                best = {"step": done, "error": error, "variables": _copy(carry)}
            ctx.checkpoint(done, lambda: {"carry": carry, "best": best, "curve": curve})  # noqa: B023 - called at once
    finally:
        for each in (feed, *others):
            each.close()
    result = {
        "variables": best["variables"],
        "step": best["step"],
        "info": {
            "hyper": dict(hyper),
            "steps": done,
            "dev_error": rounded(best["error"]),
            "diverged": diverged,
            "curve": curve,
        },
    }
    if done < recipe.steps and diverged is False:
        result["position"] = {
            "seed": seed,
            "step": done,
            "carry": to_host(carry),
            "best": best,
            "curve": curve,
        }
    return result


def log_row(ctx: Context, row: Sequence[float | None], rates: np.ndarray) -> None:
    """Shows one row of a trial's curve with the learning rate of its last step."""
    step, train_loss, dev_error = row
    rate = float(rates[step - 1]) if step else None
    ctx.log(step, train_loss=train_loss, dev_error=dev_error, learning_rate=rate)


def diverged_at(
    carry: Mapping[str, Any],
    done: int,
    recipe: Recipe,
    hyper: Mapping[str, Any],
    who: str,
    kept: int,
) -> int | bool:
    """Returns after how many of the `done` steps the loss stopped being finite, with a warning;
    False where it did not.
    """
    finite = int(carry["finite_steps"])
    if finite >= done:
        return False
    warnings.warn(
        f"{who}: the loss was not finite at step {finite + 1} of {recipe.steps} (learning rate "
        f"{hyper['learning_rate']:.3g}); it ends, its parameters of step {kept} are kept.",
        RunWarning,
        stacklevel=3,
    )
    return finite


def look_at_dev(ctx: Context, task: TaskView, network: Network, carry: Mapping[str, Any]) -> float:
    """Returns the dev error of the parameters in a carry; infinity where an answer is not finite.
    Charged to `validate`.
    """
    with ctx.phase("validate"):
        answers = predict_probabilities(
            ctx, network, carry, task.dev.images, task.kind, task.num_classes
        )
    return (
        dev_error(task.dev.labels, answers, task.kind) if np.isfinite(answers).all() else math.inf
    )


def _copy(carry: Mapping[str, Any]) -> Tree:
    """The parameters as numpy: the step donates its buffers, so they cannot be kept on the
    device.
    """
    params = {name: jax.tree.map(np.array, carry["params"][name]) for name in ("backbone", "head")}
    return to_host({"params": params, "batch_stats": jax.tree.map(np.array, carry["batch_stats"])})


def rounded(value: float) -> float | None:
    """Returns a number as the ledger has it: seven digits are what float32 holds; infinity, which
    JSON lacks, as None.
    """
    return float(f"{value:.7g}") if math.isfinite(value) else None
