"""How trials are trained: the recipe, its batch sizes and learning rates (NEVIS'22, section 4), its
programs, and the FLOPs of training and predicting, from sizes alone.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from nevis_stream.cost.counted import make_counted, make_once
from nevis_stream.learners.parts.augmentation import Augmentation
from nevis_stream.learners.parts.model import (
    EVALUATION_BATCH,
    Network,
    TaskShape,
    begin,
    choose_head_size,
    initialise_program,
    make_prediction_program,
    step_program,
)
from nevis_stream.streams.task import SINGLE_LABEL

MAIN, OTHER = "main", "other"
AUXILIARY_BATCH = 64  # examples of each auxiliary task in a step
_STORED_SCALE = 1.25  # side of the stored images over that of the network's input


@dataclass(frozen=True)
class Recipe:
    """How a model is trained.

    Attributes:
      network: backbone and resolution.
      steps: number of updates.
      validate_every: updates between two evaluations on the dev split.
      augmentation: how training views are made.
      largest_batch: B of NEVIS'22, eq. 4.
      warmup_share: share of the updates in which the learning rate rises.
      momentum: coefficient of Nesterov momentum.
      weight_decay: weight of L2 on kernels.
      schedule: of the learning rate, "cosine" or "piecewise".
      batch: examples per step; None computes it by eq. 4.
      second_network: the alternative to `network` in a search over architectures, or None.
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

    def of_trial(self, hyper: Mapping[str, Any]) -> "Recipe":
        """Returns the recipe of a trial, as its hyper-parameters change it."""
        changes = {name: hyper[name] for name in ("schedule", "batch") if name in hyper}
        views = {name: hyper[name] for name in ("crop", "flip") if name in hyper}
        network = self.second_network if hyper.get("network") == OTHER else self.network
        return dataclasses.replace(
            self,
            **changes,
            network=network,
            augmentation=dataclasses.replace(self.augmentation, **views),
        )

    def batch_of(self, examples: int) -> int:
        """Returns the number of examples per step for a task with `examples` training examples."""
        return self.batch or choose_batch_size(examples, self.largest_batch)

    @property
    def stored_size(self) -> int:
        """Side of the stored training images in pixels."""
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
          helpers: number of classes of each auxiliary task.
          side: side of the training views in pixels; None is the network's.
          learned: the parameters that are updated (see `step_program`).
        """
        heads = tuple(choose_head_size(count) for count in helpers)
        network = dataclasses.replace(self.network, resolution=side or self.network.resolution)
        return step_program(
            network,
            choose_head_size(classes),
            self.augmentation,
            self.momentum,
            self.weight_decay,
            heads,
            learned,
        )


def choose_batch_size(examples: int, largest: int = 512, share: float = 0.0025) -> int:
    """Returns b = min(B, max(16, 2^floor(log2(p·D)))) (NEVIS'22, eq. 4).

    Args:
      examples: D, the number of training examples.
      largest: B.
      share: p.
    """
    return min(largest, max(16, 2 ** math.floor(math.log2(max(1.0, share * examples)))))


def count_training_flops(
    recipe: Recipe, classes: int, n_train: int, n_dev: int, trials: int = 1, helpers: int = 0
) -> dict[str, int]:
    """Returns the FLOPs of a task's trials by phase, with `helpers` auxiliary tasks.

    No trial is assumed to diverge.
    """
    step, evaluation = _count_step_and_evaluation(recipe, classes, n_train)
    helping = _count_step_with_helper(recipe, classes, n_train) - step if helpers else 0
    evaluations = (1 + -(-recipe.steps // recipe.validate_every)) * -(-n_dev // EVALUATION_BATCH)
    return {
        "train": trials * recipe.steps * (step + helpers * helping),
        "validate": trials * evaluations * evaluation,
    }


def count_prediction_flops(recipe: Recipe, classes: int, images: int, members: int = 1) -> int:
    """Returns the FLOPs of the answers of an ensemble of `members` trials."""
    return (
        members * -(-images // EVALUATION_BATCH) * _count_step_and_evaluation(recipe, classes, 1)[1]
    )


def list_programs(recipe: Recipe, classes: int, n_train: int) -> list[tuple[Callable, tuple, dict]]:
    """Returns the programs of initialisation, evaluation and step: function, arguments, `jit`
    options.
    """
    network, outputs = recipe.network, choose_head_size(classes)
    words, array = jax.ShapeDtypeStruct((4,), jnp.uint32), jax.ShapeDtypeStruct
    variables = jax.eval_shape(initialise_program(network, outputs), words)
    batch, scalar = recipe.batch_of(n_train), np.float32(0)
    # the kind is an argument of the programs, and both kinds cost the same
    shape = TaskShape.of(SINGLE_LABEL, classes)
    stored = array((batch, recipe.stored_size, 3, recipe.stored_size), jnp.uint8)
    sizes, target = array((batch, 2), jnp.int32), array((batch, outputs), jnp.uint8)
    step = (
        begin(variables),
        stored,
        sizes,
        target,
        jax.random.key(0),
        np.int32(0),
        scalar,
        scalar,
        shape,
    )
    views = array((EVALUATION_BATCH, network.resolution, network.resolution, 3), jnp.uint8)
    return [
        (initialise_program(network, outputs), (words,), {}),
        (make_prediction_program(network, outputs), (variables, views, shape), {}),
        (recipe.step(classes), step, {"donate_argnums": 0}),
    ]


def _count_step_and_evaluation(recipe: Recipe, classes: int, n_train: int) -> list[int]:
    _, evaluation, step = list_programs(recipe, classes, n_train)
    return [
        make_counted(function, **options).flops(*arguments)
        for function, arguments, options in (step, evaluation)
    ]


def _count_step_with_helper(recipe: Recipe, classes: int, n_train: int) -> int:
    """Returns the FLOPs of a step with one auxiliary task."""
    array, outputs = jax.ShapeDtypeStruct, choose_head_size(1)
    *_, (_, (carry, *rest), options) = list_programs(recipe, classes, n_train)
    variables = jax.eval_shape(initialise_program(recipe.network, outputs), array((4,), jnp.uint32))
    params = carry["params"] | {"helpers": {"0": variables["params"]["head"]}}
    side = recipe.stored_size
    helper_batch = (
        array((AUXILIARY_BATCH, side, 3, side), jnp.uint8),
        array((AUXILIARY_BATCH, 2), jnp.int32),
        array((AUXILIARY_BATCH, outputs), jnp.uint8),
        TaskShape.of(SINGLE_LABEL, 1),
    )
    carry = begin({"params": params, "batch_stats": carry["batch_stats"]})
    return make_counted(recipe.step(classes, [1]), **options).flops(
        carry, *rest, (helper_batch,), np.float32(0)
    )


FINAL_RATE = 1e-8


def make_cosine_rates(peak: float, steps: int, warmup_share: float) -> np.ndarray:
    """Returns float32[steps]: linear warm-up from 0 to `peak`, then a cosine down to 1e-8.

    Source: NEVIS'22, section 4.

    Args:
      peak: largest learning rate.
      steps: number of updates.
      warmup_share: share of the updates spent warming up, in [0, 1).
    """
    warmup = int(warmup_share * steps)
    shape = _shape(steps, warmup)
    rising = np.arange(steps) < warmup
    return np.where(rising, peak * shape, FINAL_RATE + (peak - FINAL_RATE) * shape).astype(
        np.float32
    )


@make_once
def _shape(steps: int, warmup: int) -> np.ndarray:
    """Returns the schedule with peak 1 and end 0, which is compiled once for all trials."""
    if steps == 0:
        return np.zeros(0)
    schedule = optax.warmup_cosine_decay_schedule(
        float(warmup == 0), 1.0, warmup, steps, end_value=0.0
    )
    return np.asarray(jax.jit(schedule)(np.arange(steps)), np.float64)


def make_piecewise_rates(peak: float, steps: int, warmup_share: float) -> np.ndarray:
    """Returns float32[steps]: linear warm-up to `peak`, then a piecewise constant rate.

    It drops to a tenth of the peak after half of the steps and to a hundredth after 3/4.

    The paper mentions a piecewise constant schedule (Appendix H) without its values; these are
    common ones.
    """
    step = np.arange(steps)
    warmup = int(warmup_share * steps)
    rising = step / max(warmup, 1)
    falling = np.where(step < 0.5 * steps, 1.0, np.where(step < 0.75 * steps, 0.1, 0.01))
    return (peak * np.where(step < warmup, rising, falling)).astype(np.float32)


SCHEDULES = {"cosine": make_cosine_rates, "piecewise": make_piecewise_rates}
