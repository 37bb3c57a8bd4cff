"""Fitting one model to one task with given hyper-parameters (NEVIS'22, section 4)."""

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from learners.parts.augmentation import Augmentation
from learners.parts.feed import Feed
from learners.parts.loop import Curve, Training, dev_error, train
from learners.parts.model import (
    Network,
    begin,
    head_size,
    predict_probabilities,
    several_steps,
    step_program,
)
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
      second_network: the one that a search over architectures compares with `network`, or None.
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
    second_network: Network | None = None

    def of(self, hyper: Mapping[str, Any]) -> "Recipe":
        """Returns the recipe of one trial: with the choices that its hyper-parameters make."""
        named = {name: hyper[name] for name in ("schedule", "batch") if name in hyper}
        looks = {name: hyper[name] for name in ("crop", "flip") if name in hyper}
        network = self.second_network if hyper.get("network") == OTHER else self.network
        return dataclasses.replace(
            self,
            **named,
            network=network,
            augmentation=dataclasses.replace(self.augmentation, **looks),
        )

    def batch_of(self, examples: int) -> int:
        """Returns the number of examples in a step, for a task with `examples` of them."""
        return self.batch or batch_size(examples, self.largest_batch)

    @property
    def stored_size(self) -> int:
        """Side of the stored training pictures in pixels."""
        return math.ceil(self.network.resolution * _STORED_SCALE)

    def step(
        self,
        classes: int,
        helpers: Sequence[int] = (),
        side: int | None = None,
        learned: tuple[str, ...] = (),
    ):
        """Returns the training-step program.

        Args:
          classes: number of classes of the task.
          helpers: the same of each auxiliary task.
          side: of the training views in pixels; None: the network's.
          learned: the parameters that are updated (see `step_program`).
        """
        heads = tuple(head_size(count) for count in helpers)
        network = dataclasses.replace(self.network, resolution=side or self.network.resolution)
        return step_program(
            network,
            head_size(classes),
            self.augmentation,
            self.momentum,
            self.weight_decay,
            heads,
            learned,
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
    *,
    stop: Callable[[Curve], bool] | None = None,
    side: Callable[[int], int] | None = None,
    learned: tuple[str, ...] = (),
    together: int = 1,
) -> Tree:
    """Trains from `variables` and returns the parameters with the lowest dev error.

    Of several with the same error, the last.

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
      position: where an earlier call with `until` ended, to continue as if it had not.
      until: the step to end at (a multiple of `validate_every`); the schedule is that of all steps.
      stop: ends the trial early when it returns True; called with its curve after each look.
      side: `side(step)` is the side of that step's training views in pixels, for networks whose
        parameters fit every size; each size is a program. Looks use the network's resolution.
      learned: the parameters that are updated, such as ("head", "backbone/BasicBlock_3"); all where
        it is empty. Batch statistics are updated in any case.
      together: steps in one program (`lax.scan`). On a GPU this saves dispatch; on a CPU gradients
        of convolutions are 15 to 35 times slower inside a scan.

    Returns:
      {"variables", "step" (of the best look), "info" (see docs/run-directory.md)}, and "position"
      where `until` ended it.
    """
    seed = position["seed"] if position else ctx.seed
    rates = SCHEDULES[recipe.schedule](hyper["learning_rate"], recipe.steps, recipe.warmup_share)
    key, smoothing = key_of(seed), np.float32(hyper["label_smoothing"])
    feed = Feed(ctx, task, recipe.stored_size, recipe.batch_of(len(task.train)), seed)
    others = [
        Feed(ctx, helper, recipe.stored_size, AUXILIARY_BATCH, (seed + 1 + number) & (2**63 - 1))
        for number, helper in enumerate(helpers)
    ]
    weight = np.float32(hyper.get("auxiliary_weight", 0))

    classes = task.num_classes, [helper.num_classes for helper in helpers]

    @functools.cache
    def program(length: int, pixels: int | None) -> Callable:
        step = recipe.step(*classes, pixels, learned)
        return ctx.jit(several_steps(step) if length > 1 else step, donate_argnums=0)

    def step_inputs(index: int) -> Tree:
        batches = [source(index) for source in (feed, *others)]
        return [(b.stored, b.sizes, b.target) for b in batches], np.int32(index), rates[index]

    def advance(carry: Tree, start: int, end: int) -> tuple[Tree, list[tuple[float, int]]]:
        for indices in _pieces(start, end, together, side):
            arguments = [step_inputs(index) for index in indices]
            (own, *helping), index, rate = (
                jax.tree.map(_stacked, *arguments) if len(indices) > 1 else arguments[0]
            )
            auxiliary = (tuple((*x, o.shape) for x, o in zip(helping, others, strict=True)), weight)
            carry = program(len(indices), side and side(indices[0]))(
                carry,
                *own,
                key,
                index,
                rate,
                smoothing,
                feed.shape,
                *(auxiliary if others else ()),
            )
        return report(carry, end - start)

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
            stop=stop,
        )
    finally:
        for source in (feed, *others):
            source.close()
    if "position" in result:
        result["position"]["seed"] = seed
    return result


def _pieces(
    start: int, end: int, together: int, side: Callable[[int], int] | None
) -> Iterator[range]:
    """Yields the steps of each program: up to `together` that share a size."""
    first = start
    while first < end:
        after = first + 1
        while after < min(first + together, end) and not (side and side(after) != side(first)):
            after += 1
        yield range(first, after)
        first = after


def _stacked(*arrays: Any) -> Any:
    return (np if isinstance(arrays[0], np.ndarray | np.generic) else jnp).stack(arrays)


def report(carry: Tree, steps: int) -> tuple[Tree, list[tuple[float, int]]]:
    """Returns a carry with its sum of losses at 0 again, and the report of the last `steps` steps.

    The report is that of `Training.advance`.
    """
    loss, finite = float(carry["loss_sum"]) / steps, int(carry["finite_steps"])
    return carry | {"loss_sum": np.float32(0)}, [(loss, finite)]


def look_at_dev(ctx: Context, task: TaskView, network: Network, carry: Mapping[str, Any]) -> float:
    """Returns the dev error of the parameters in a carry, charged to `validate`.

    Infinity where an answer is not finite.
    """
    with ctx.phase("validate"):
        answers = predict_probabilities(
            ctx, network, carry, task.dev.images, task.kind, task.num_classes
        )
    return dev_error(task.dev.labels, answers, task.kind)


def on_host(carry: Mapping[str, Any], parts: Sequence[str]) -> Tree:
    """Returns parts of the parameters, and the statistics, as numpy.

    The step donates its buffers, so they cannot be kept on the device.
    """
    params = {name: jax.tree.map(np.array, carry["params"][name]) for name in parts}
    return to_host({"params": params, "batch_stats": jax.tree.map(np.array, carry["batch_stats"])})
