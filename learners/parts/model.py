"""A backbone with a linear head of its own for each task, and the jitted programs that train and evaluate it.

Programs come from cached factories keyed by what changes their code: the network, the head's size and the kind of task.
Everything else (learning rate, label smoothing, number of classes, key) is an argument, so that trials and tasks share them.
Heads are made with 16, 64, 256, … outputs, the next that holds the task's classes; outputs beyond those are masked, and
their few FLOPs are charged as they are executed.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from learners.parts.augmentation import Augmentation, to_unit_range, training_view
from learners.parts.networks import Head, make_backbone
from nevis_stream.datasets.images import Images
from nevis_stream.learner import Context
from nevis_stream.task import SINGLE_LABEL

EVALUATION_BATCH = 64
_MASKED = -1e9


@dataclass(frozen=True)
class Network:
    """Which backbone, at which resolution.

    Attributes:
      name: a name known to `make_backbone`.
      options: its options, as sorted pairs so that they can be hashed.
      resolution: side of the input in pixels.
    """

    name: str
    options: tuple[tuple[str, Any], ...] = ()
    resolution: int = 64

    def backbone(self):
        """Returns the flax module."""
        return make_backbone(self.name, **dict(self.options))


def head_size(classes: int) -> int:
    """Returns the number of outputs of a head for `classes` classes: 16, 64, 256, …"""
    size = 16
    while size < classes:
        size *= 4
    return size


def _masked(logits: jax.Array, classes: jax.Array) -> jax.Array:
    return jnp.where(jnp.arange(logits.shape[-1]) < classes, logits, _MASKED)


def loss(
    logits: jax.Array, labels: jax.Array, classes: jax.Array, smoothing: jax.Array, kind: str
) -> jax.Array:
    """Mean cross-entropy with label smoothing (NEVIS'22, section 4).

    Args:
      logits: float32[b, outputs], of which the first `classes` count.
      labels: int32[b], or uint8[b, outputs] with 0 or 1 for multi label.
      classes: number of classes.
      smoothing: ε; targets are (1-ε) onehot + ε/C, or (1-ε) y + ε/2 for multi label.
      kind: "single_label" or "multi_label".
    """
    valid = jnp.arange(logits.shape[-1]) < classes
    if kind == SINGLE_LABEL:
        logp = jax.nn.log_softmax(_masked(logits, classes))
        target = (1 - smoothing) * jax.nn.one_hot(labels, logits.shape[-1]) + smoothing / classes
        return -jnp.where(valid, target * logp, 0).sum(-1).mean()
    target = (1 - smoothing) * labels + smoothing / 2
    each = optax.sigmoid_binary_cross_entropy(logits, target)
    return (jnp.where(valid, each, 0).sum(-1) / classes).mean()


def optimiser(momentum: float, weight_decay: float) -> optax.GradientTransformation:
    """SGD with Nesterov momentum at learning rate 1; L2 on kernels only, not on biases or normalisation."""
    return optax.chain(
        optax.add_decayed_weights(weight_decay, mask=lambda params: jax.tree.map(lambda p: p.ndim > 1, params)),
        optax.trace(momentum, nesterov=True),
    )


@functools.cache
def initialise_program(network: Network, outputs: int):
    """Returns f(key) → variables: {"params": {"backbone", "head"}, "batch_stats"}."""
    backbone, head = network.backbone(), Head(outputs)

    def initialise(key):
        backbone_key, head_key = jax.random.split(key)
        images = jnp.zeros((1, network.resolution, network.resolution, 3))
        body = backbone.init(backbone_key, images, train=False)
        features = backbone.apply(body, images, train=False)
        return {
            "params": {"backbone": body["params"], "head": head.init(head_key, features)["params"]},
            "batch_stats": body.get("batch_stats", {}),
        }

    return initialise


def begin(variables: Mapping[str, Any], momentum: float, weight_decay: float) -> dict[str, Any]:
    """Returns the carry of `step_program` before the first step."""
    variables = jax.tree.map(jnp.array, dict(variables))
    trace = optimiser(momentum, weight_decay).init(variables["params"])[1].trace
    return variables | {"momentum": trace, "loss_sum": jnp.zeros(()), "finite_steps": jnp.zeros((), jnp.int32)}


@functools.cache
def step_program(network: Network, outputs: int, kind: str, augment: Augmentation, momentum: float, decay: float):
    """Returns the training step.

    f(carry, stored uint8[b, s, s, 3], sizes int32[b, 2], labels, key, step, rate, smoothing, classes) → carry. In the carry,
    `loss_sum` adds up the losses and `finite_steps` counts the steps before the first loss that was not finite.
    """
    backbone, head = network.backbone(), Head(outputs)
    optimise = optimiser(momentum, decay)

    def step(carry, stored, sizes, labels, key, index, rate, smoothing, classes):
        images = training_view(jax.random.fold_in(key, index), stored, sizes, network.resolution, augment)

        def objective(params):
            features, updated = backbone.apply(
                {"params": params["backbone"], "batch_stats": carry["batch_stats"]},
                images,
                train=True,
                mutable=["batch_stats"],
            )
            logits = head.apply({"params": params["head"]}, features)
            return loss(logits, labels, classes, smoothing, kind), updated.get("batch_stats", {})

        (value, stats), gradients = jax.value_and_grad(objective, has_aux=True)(carry["params"])
        before = (optax.MaskedState(optax.EmptyState()), optax.TraceState(carry["momentum"]))
        updates, (_, trace) = optimise.update(gradients, before, carry["params"])
        sound = jnp.isfinite(value) & (carry["finite_steps"] == index)
        return {
            "params": jax.tree.map(lambda p, u: p - rate * u, carry["params"], updates),
            "batch_stats": stats,
            "momentum": trace.trace,
            "loss_sum": carry["loss_sum"] + value,
            "finite_steps": carry["finite_steps"] + sound.astype(jnp.int32),
        }

    return step


@functools.cache
def probabilities_program(network: Network, outputs: int, kind: str):
    """Returns f(variables, images uint8[b, r, r, 3], classes) → float32[b, outputs] probabilities."""
    backbone, head = network.backbone(), Head(outputs)

    def probabilities(variables, images, classes):
        features = backbone.apply(
            {"params": variables["params"]["backbone"], "batch_stats": variables["batch_stats"]},
            to_unit_range(images),
            train=False,
        )
        logits = head.apply({"params": variables["params"]["head"]}, features)
        return jax.nn.softmax(_masked(logits, classes)) if kind == SINGLE_LABEL else jax.nn.sigmoid(logits)

    return probabilities


def predict_probabilities(
    ctx: Context, network: Network, variables: Mapping[str, Any], images: Images, kind: str, classes: int
) -> np.ndarray:
    """Returns float32[n, classes] for the paper's evaluation view: central square, resized."""
    views = images.center_cropped(network.resolution)
    program = ctx.jit(probabilities_program(network, head_size(classes), kind))
    variables = jax.tree.map(jnp.asarray, {name: variables[name] for name in ("params", "batch_stats")})
    answers = []
    for start in range(0, len(views), EVALUATION_BATCH):
        batch = views[start : start + EVALUATION_BATCH]
        missing = EVALUATION_BATCH - len(batch)
        padded = np.pad(batch, ((0, missing), (0, 0), (0, 0), (0, 0))) if missing else batch
        answers.append(np.asarray(program(variables, padded, np.float32(classes)))[: len(batch), :classes])
    return np.concatenate(answers)
