"""The programs of a task and the FLOPs of training and predicting, from sizes alone."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from nevis_stream.cost.counted import count_flops
from nevis_stream.learners.parts.fit import Recipe
from nevis_stream.learners.parts.model import (
    EVALUATION_BATCH,
    TaskShape,
    begin,
    head_size,
    initialise_program,
    probabilities_program,
)
from nevis_stream.learners.parts.training_data import AUXILIARY_BATCH
from nevis_stream.streams.task import SINGLE_LABEL


def of_trials(
    recipe: Recipe, classes: int, n_train: int, n_dev: int, trials: int = 1, helpers: int = 0
) -> dict[str, int]:
    """Returns the FLOPs of a task's trials by phase, with `helpers` auxiliary tasks.

    No trial is assumed to diverge.
    """
    step, look = _step_and_look(recipe, classes, n_train)
    helping = _step_with_helper(recipe, classes, n_train) - step if helpers else 0
    looks = (1 + -(-recipe.steps // recipe.validate_every)) * -(-n_dev // EVALUATION_BATCH)
    return {
        "train": trials * recipe.steps * (step + helpers * helping),
        "validate": trials * looks * look,
    }


def of_predicting(recipe: Recipe, classes: int, images: int, members: int = 1) -> int:
    """Returns the FLOPs of the answers of an ensemble of `members` trials."""
    return members * -(-images // EVALUATION_BATCH) * _step_and_look(recipe, classes, 1)[1]


def programs(recipe: Recipe, classes: int, n_train: int) -> list[tuple[Callable, tuple, dict]]:
    """Returns the programs of initialisation, look and step: function, arguments, `jit` options."""
    network, outputs = recipe.network, head_size(classes)
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
        (probabilities_program(network, outputs), (variables, views, shape), {}),
        (recipe.step(classes), step, {"donate_argnums": 0}),
    ]


def _step_and_look(recipe: Recipe, classes: int, n_train: int) -> list[int]:
    _, look, step = programs(recipe, classes, n_train)
    return [
        count_flops(function, **options).flops(*arguments)
        for function, arguments, options in (step, look)
    ]


def _step_with_helper(recipe: Recipe, classes: int, n_train: int) -> int:
    """Returns the FLOPs of a step with one auxiliary task."""
    array, outputs = jax.ShapeDtypeStruct, head_size(1)
    *_, (_, (carry, *rest), options) = programs(recipe, classes, n_train)
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
    return count_flops(recipe.step(classes, [1]), **options).flops(
        carry, *rest, (helper_batch,), np.float32(0)
    )
