"""Linear heads on frozen features; one program (vmap and scan) trains all trials of a task."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from nevis_stream.cost.counted import make_counted
from nevis_stream.learner import Context
from nevis_stream.learners.parts.feed import Batches
from nevis_stream.learners.parts.loop import Training, measure_dev_error, train
from nevis_stream.learners.parts.model import (
    EVALUATION_BATCH,
    TaskShape,
    choose_head_size,
    compute_loss,
    encode_targets,
    initialise_program,
    predict_masked,
)
from nevis_stream.learners.parts.recipe import SCHEDULES, Recipe
from nevis_stream.learners.parts.relatedness import drop_head, embed, make_features_program
from nevis_stream.learners.parts.search import Hyper
from nevis_stream.storage.checkpoint import Tree
from nevis_stream.streams.task import SINGLE_LABEL, TaskView
from nevis_stream.training.descent import apply_momentum


@functools.cache
def make_training_program(steps: int, momentum: float, decay: float):
    """Returns the program that trains the heads of t trials for some steps.

    f(heads, momenta, features, target, picked, rates, smoothing, shape) → heads, momenta, losses.

    Heads are {"kernel": float32[t, features, outputs], "bias": float32[t, outputs]}, momenta have
    the same shapes, picked is int32[t, steps, b] (sample numbers), rates float32[t, steps],
    smoothing float32[t], losses float32[t, steps].
    """

    def train_head(head, trace, features, target, picked, rates, smoothing, shape):
        def step(carry, inputs):
            head, trace = carry
            rows, rate = inputs

            def objective(head):
                logits = features[rows] @ head["kernel"] + head["bias"]
                return compute_loss(logits, target[rows], smoothing, shape)

            value, gradient = jax.value_and_grad(objective)(head)
            return apply_momentum(gradient, trace, head, rate, momentum, decay), value

        (head, trace), losses = jax.lax.scan(step, (head, trace), (picked, rates), length=steps)
        return head, trace, losses

    return jax.vmap(train_head, in_axes=(0, 0, None, None, 0, 0, 0, None))


@functools.cache
def make_prediction_program():
    """Returns f(heads, features [b, features], shape) → float32[t, b, outputs] probabilities."""

    def answers(head, features, shape):
        return predict_masked(features @ head["kernel"] + head["bias"], shape)

    return jax.vmap(answers, in_axes=(0, None, None))


def list_programs(
    recipe: Recipe, trials: int, classes: int, n_train: int
) -> list[tuple[Callable, tuple, dict]]:
    """Returns the programs of `fit_heads` for a task of these sizes: function, arguments, options.

    `trials` is the number of trials that are trained at once.
    """
    network, outputs, array = recipe.network, choose_head_size(classes), jax.ShapeDtypeStruct
    words = array((4,), np.uint32)
    variables = drop_head(jax.eval_shape(initialise_program(network, outputs), words))
    images = array((EVALUATION_BATCH, network.resolution, network.resolution, 3), np.uint8)
    features = make_features_program(network, False)
    width, rows = jax.eval_shape(features, variables, images).shape[1], _rows(n_train)
    heads = {
        "kernel": array((trials, width, outputs), np.float32),
        "bias": array((trials, outputs), np.float32),
    }
    shape = TaskShape.of(SINGLE_LABEL, classes)  # both kinds cost the same
    train_features, dev_features = (array((n, width), np.float32) for n in (rows, EVALUATION_BATCH))
    target, smoothing = array((rows, outputs), np.uint8), array((trials,), np.float32)
    lengths = {min(recipe.validate_every, recipe.steps), recipe.steps % recipe.validate_every}
    training = [
        (
            make_training_program(steps, recipe.momentum, recipe.weight_decay),
            (
                heads,
                heads,
                train_features,
                target,
                array((trials, steps, recipe.batch_of(n_train)), np.int32),
                array((trials, steps), np.float32),
                smoothing,
                shape,
            ),
            {},
        )
        for steps in sorted(lengths - {0})
    ]
    return [
        (features, (variables, images), {}),
        (make_prediction_program(), (heads, dev_features, shape), {}),
        *training,
    ]


def fit_heads(
    ctx: Context,
    task: TaskView,
    backbone: Mapping[str, Any],
    hypers: Sequence[Hyper],
    recipe: Recipe,
) -> list[Tree]:
    """Trains a linear head for each set of hyper-parameters on the features of a fixed backbone.

    Features are computed once, from the evaluation views with the running statistics, and charged
    to the task. Each trial is charged its share of the common program.

    Args:
      ctx: context of the task, not of a trial.
      task: the current task.
      backbone: {"params": {"backbone"}, "batch_stats"}.
      hypers: `learning_rate` and `label_smoothing` of each trial.
      recipe: network, steps, evaluations, batch size and optimiser; images are not augmented.

    Returns:
      For each trial what `fit` returns, but "variables" has only the head: {"params": {"head"}}.
    """
    train_features = embed(ctx, recipe.network, backbone, task.train.images, train=False)
    with ctx.phase("validate"):
        dev_features = embed(ctx, recipe.network, backbone, task.dev.images, train=False)

    def together(contexts: Sequence[Context], hypers: Sequence[Hyper]) -> list[Tree]:
        return _train(contexts, hypers, task, recipe, train_features, dev_features)

    return ctx.map_together(together, hypers)


def _train(
    contexts: Sequence[Context],
    hypers: Sequence[Hyper],
    task: TaskView,
    recipe: Recipe,
    train_features: np.ndarray,
    dev_features: np.ndarray,
) -> list[Tree]:
    outputs, batch = choose_head_size(task.num_classes), recipe.batch_of(len(task.train))
    shape = TaskShape.of(task.kind, task.num_classes)
    train_features, target = (
        _pad(array)
        for array in (
            train_features,
            encode_targets(task.train.labels, task.kind, task.num_classes),
        )
    )
    orders = [Batches(len(task.train), batch, ctx.seed) for ctx in contexts]
    schedule = SCHEDULES[recipe.schedule]
    rates = np.stack(
        [schedule(hyper["learning_rate"], recipe.steps, recipe.warmup_share) for hyper in hypers]
    )
    smoothing = np.asarray([hyper["label_smoothing"] for hyper in hypers], np.float32)

    def begin() -> Tree:
        # the variance with which flax's Dense starts, 1 / features
        scale = 1 / np.sqrt(train_features.shape[1])
        size = train_features.shape[1], outputs
        kernels = [ctx.generator("head").normal(0, scale, size) for ctx in contexts]
        biases = jnp.zeros((len(contexts), outputs))
        heads = {"kernel": jnp.asarray(np.stack(kernels), jnp.float32), "bias": biases}
        return {"heads": heads, "momenta": jax.tree.map(jnp.zeros_like, heads)}

    def advance(state: Tree, start: int, stop: int) -> tuple[Tree, list[tuple[float, int]]]:
        picked = np.stack(
            [np.stack([order(step) for step in range(start, stop)]) for order in orders]
        ).astype(np.int32)
        program = make_training_program(stop - start, recipe.momentum, recipe.weight_decay)
        heads, momenta, losses = _call_for_all(
            contexts,
            "train",
            program,
            state["heads"],
            state["momenta"],
            train_features,
            target,
            picked,
            rates[:, start:stop],
            smoothing,
            shape,
        )
        losses = np.asarray(losses)
        finite_steps = np.logical_and.accumulate(np.isfinite(losses), axis=1).sum(1)
        reports = [
            (float(values.mean()), start + int(finite))
            for values, finite in zip(losses, finite_steps, strict=True)
        ]
        return {"heads": heads, "momenta": momenta}, reports

    def evaluate(state: Tree) -> list[tuple[float, dict[str, Any]]]:
        program, parts = make_prediction_program(), []
        for start in range(0, len(dev_features), EVALUATION_BATCH):
            rows = np.arange(start, start + EVALUATION_BATCH) % len(dev_features)
            answers = _call_for_all(
                contexts, "validate", program, state["heads"], dev_features[rows], shape
            )
            parts.append(np.asarray(answers)[:, : len(dev_features) - start, : task.num_classes])
        answers = np.concatenate(parts, axis=1)
        return [(measure_dev_error(task.dev.labels, trial, task.kind), {}) for trial in answers]

    def keep(state: Tree, number: int) -> Tree:
        head = {name: np.asarray(array[number]) for name, array in state["heads"].items()}
        return {"params": {"head": {"Dense_0": head}}}

    training = Training(f"task {task.task_id!r}", begin, advance, evaluate, keep)
    return train(contexts, training, hypers, rates, every=recipe.validate_every)


def _pad(array: np.ndarray) -> jax.Array:
    """Returns the rows on the device, padded so that data sets of several sizes share programs."""
    return jnp.asarray(np.pad(array, ((0, _rows(len(array)) - len(array)), (0, 0))))


def _rows(examples: int) -> int:
    """Returns the padded number of examples: 1024 or a larger power of 2."""
    return max(1024, 1 << (examples - 1).bit_length())


def _call_for_all(contexts: Sequence[Context], phase: str, program: Any, *args: Any) -> Any:
    """Calls a program of all trials and charges each its share, the first also the remainder."""
    result, flops = make_counted(program).call_and_count(*args)
    share, rest = divmod(flops, len(contexts))
    for number, ctx in enumerate(contexts):
        with ctx.phase(phase):
            ctx.charge(share + (rest if number == 0 else 0))
    return result
