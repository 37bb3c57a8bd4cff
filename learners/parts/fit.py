"""Fitting one model to one task with given hyper-parameters: the paper's training recipe (NEVIS'22,
section 4).
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from learners.parts.augmentation import Augmentation
from learners.parts.feed import Feed
from learners.parts.loop import Training, dev_error, train
from learners.parts.model import Network, begin, head_size, predict_probabilities, step_program
from learners.parts.schedule import SCHEDULES, batch_size
from learners.parts.training_data import AUXILIARY_BATCH
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
    something.

    Args:
      ctx: context of the trial.
      task: the current task.
      variables: {"params": {"backbone", "head"}, "batch_stats"} to start from; with helpers also
        their heads, "helpers": {"0", …}, which are dropped at the end. Not needed with a position.
      hyper: `learning_rate`, `label_smoothing` and, with helpers, `auxiliary_weight`.
      recipe: everything else.
      helpers: auxiliary tasks; each step sees a batch of 64 of each.
      position: where an earlier call with `until` ended, to go on from there as if it had not.
      until: the step to end at (a multiple of `validate_every`); the schedule is that of all steps.

    Returns:
      {"variables", "step" (of the best look), "info" (see docs/run-directory.md)}, and "position"
      where `until` ended it.
    """
    seed = position["seed"] if position else ctx.seed
    rates = SCHEDULES[recipe.schedule](hyper["learning_rate"], recipe.steps, recipe.warmup_share)
    key, smoothing = key_of(seed), np.float32(hyper["label_smoothing"])
    step = ctx.jit(
        recipe.step(task.num_classes, [helper.num_classes for helper in helpers]), donate_argnums=0
    )
    feed = Feed(ctx, task, recipe.stored_size, recipe.batch_of(len(task.train)), seed)
    others = [
        Feed(ctx, helper, recipe.stored_size, AUXILIARY_BATCH, (seed + 1 + number) & (2**63 - 1))
        for number, helper in enumerate(helpers)
    ]
    weight = np.float32(hyper.get("auxiliary_weight", 0))

    def advance(carry: Tree, start: int, stop: int) -> tuple[Tree, list[tuple[float, int]]]:
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
        return report(carry, stop - start)

    training = Training(
        name=f"task {task.task_id!r}",
        begin=lambda: begin(variables),
        advance=advance,
        look=lambda carry: [(look_at_dev(ctx, task, recipe.network, carry), {})],
        keep=lambda carry, _: on_host(carry, ("backbone", "head")),
    )
    try:
        (result,) = train(
            [ctx],
            training,
            [hyper],
            [rates],
            every=recipe.validate_every,
            position=position,
            until=until,
        )
    finally:
        for each in (feed, *others):
            each.close()
    if "position" in result:
        result["position"]["seed"] = seed
    return result


def report(carry: Tree, steps: int) -> tuple[Tree, list[tuple[float, int]]]:
    """Returns a carry with its sum of losses at 0 again, and what `Training.advance` reports of the
    last `steps` steps.
    """
    loss, finite = float(carry["loss_sum"]) / steps, int(carry["finite_steps"])
    return carry | {"loss_sum": np.float32(0)}, [(loss, finite)]


def look_at_dev(ctx: Context, task: TaskView, network: Network, carry: Mapping[str, Any]) -> float:
    """Returns the dev error of the parameters in a carry; infinity where an answer is not finite.
    Charged to `validate`.
    """
    with ctx.phase("validate"):
        answers = predict_probabilities(
            ctx, network, carry, task.dev.images, task.kind, task.num_classes
        )
    return dev_error(task.dev.labels, answers, task.kind)


def on_host(carry: Mapping[str, Any], parts: Sequence[str]) -> Tree:
    """Returns parts of the parameters, and the statistics, as numpy: the step donates its buffers,
    so they cannot be kept on the device.
    """
    params = {name: jax.tree.map(np.array, carry["params"][name]) for name in parts}
    return to_host({"params": params, "batch_stats": jax.tree.map(np.array, carry["batch_stats"])})
