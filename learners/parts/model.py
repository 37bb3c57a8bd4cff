"""A backbone with a linear head for each task, and the jitted programs that train and evaluate it.

Programs come from cached factories keyed by what changes their code: the network and the head's
size. Everything else (learning rate, label smoothing, number of classes, kind of task, key) is an
argument, so that trials and tasks share them. Heads are made with 64, 256, 1024, … outputs, the
next that holds the task's classes; the other outputs are masked, and their few FLOPs are charged
as they are executed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct
from flax.traverse_util import flatten_dict, unflatten_dict

from learners.parts.augmentation import Augmentation, to_unit_range, training_view
from learners.parts.networks import Head, make_backbone
from nevis_stream.cost.counted import made_once, plain_convolutions
from nevis_stream.datasets.images import Images
from nevis_stream.errors import BadInput, unknown
from nevis_stream.learner import Context
from nevis_stream.streams.task import SINGLE_LABEL

EVALUATION_BATCH = 64
# side of the first stage's maps from which gradients of kernels are quicker without XLA's library
LARGE_MAP = 32
_MASKED = -1e9


@dataclass(frozen=True)
class Network:
    """Which backbone, at which resolution.

    Attributes:
      name: a name known to `make_backbone`.
      options: its options, as sorted pairs so that they can be hashed.
      resolution: side of the input in pixels.
      precision: "float32", or "bfloat16": the backbone computes in bfloat16; parameters, their
        updates, the statistics of normalisation, and the head stay float32.
    """

    name: str
    options: tuple[tuple[str, Any], ...] = ()
    resolution: int = 64
    precision: str = "float32"

    def backbone(self):
        """Returns the flax module."""
        return make_backbone(self.name, **dict(self.options))

    def features(
        self, params: Any, statistics: Any, images: jax.Array, train: bool
    ) -> tuple[jax.Array, Any]:
        """Applies the backbone.

        Args:
          params: its parameters.
          statistics: running statistics of normalisation; {} without any.
          images: float32[b, r, r, 3] in [-1, 1].
          train: normalise with the statistics of the batch, else with the running ones.

        Returns:
          float32[b, features], and the running statistics after this batch (as before where not
          `train`).
        """
        if self.precision != "float32":
            params, images = jax.tree.map(lambda x: x.astype(self.precision), (params, images))
        variables = {"params": params, "batch_stats": statistics}
        if not train:
            return self.backbone().apply(variables, images, train=False).astype(
                jnp.float32
            ), statistics
        features, updated = self.backbone().apply(
            variables, images, train=True, mutable=["batch_stats"]
        )
        return features.astype(jnp.float32), updated.get("batch_stats", {})


def head_size(classes: int) -> int:
    """Returns the number of outputs of a head for `classes` classes: 64, 256, 1024, …"""
    size = 64
    while size < classes:
        size *= 4
    return size


def _masked(logits: jax.Array, classes: jax.Array) -> jax.Array:
    return jnp.where(jnp.arange(logits.shape[-1]) < classes, logits, _MASKED)


def masked_probabilities(logits: jax.Array, shape: "TaskShape") -> jax.Array:
    """Returns float32[b, outputs]: softmax over the task's classes, or a sigmoid for each label."""
    single = jax.nn.softmax(_masked(logits, shape.classes))
    return jnp.where(shape.multi_label, jax.nn.sigmoid(logits), single)


def targets(labels: np.ndarray, kind: str, classes: int) -> np.ndarray:
    """Returns uint8[n, outputs] with a 1 at every label of a sample, as wide as the task's head.

    Args:
      labels: int32[n] class ids, or uint8[n, classes] with 0 or 1.
      kind: "single_label" or "multi_label".
      classes: number of classes.
    """
    out = np.zeros((len(labels), head_size(classes)), np.uint8)
    if kind == SINGLE_LABEL:
        out[np.arange(len(labels)), labels] = 1
    else:
        out[:, :classes] = labels
    return out


@struct.dataclass
class TaskShape:
    """What a program must know of the current task.

    Both are arguments, so that tasks share programs.

    Attributes:
      classes: float32[], the number of outputs of the head that count.
      multi_label: bool[].
    """

    classes: np.ndarray
    multi_label: np.ndarray

    @classmethod
    def of(cls, kind: str, classes: int) -> "TaskShape":
        """Returns the shape of a task."""
        return cls(np.float32(classes), np.bool_(kind != SINGLE_LABEL))


def loss(logits: jax.Array, target: jax.Array, smoothing: jax.Array, shape: TaskShape) -> jax.Array:
    """Mean cross-entropy with label smoothing (NEVIS'22, section 4).

    Over softmax or over independent sigmoids.

    Args:
      logits: float32[b, outputs]; the first `shape.classes` count.
      target: uint8[b, outputs] with 0 or 1.
      smoothing: ε; the smoothed targets are (1-ε) onehot + ε/C, or (1-ε) y + ε/2 for multi label.
      shape: number of classes, and which of the two losses; the sigmoid one is averaged over
        labels.
    """
    valid = jnp.arange(logits.shape[-1]) < shape.classes
    smoothed = (1 - smoothing) * target + smoothing / jnp.where(shape.multi_label, 2, shape.classes)
    single = -smoothed * jax.nn.log_softmax(_masked(logits, shape.classes))
    multi = optax.sigmoid_binary_cross_entropy(logits, smoothed) / shape.classes
    return jnp.where(valid, jnp.where(shape.multi_label, multi, single), 0).sum(-1).mean()


def optimiser(momentum: float, weight_decay: float) -> optax.GradientTransformation:
    """SGD with Nesterov momentum at learning rate 1 and L2 on kernels.

    Biases and normalisation have no L2.
    """
    return optax.chain(
        optax.add_decayed_weights(
            weight_decay, mask=lambda params: jax.tree.map(lambda p: p.ndim > 1, params)
        ),
        optax.trace(momentum, nesterov=True),
    )


@made_once
def initialise_program(network: Network, outputs: int):
    """Returns f(words uint32[4]) → variables: {"params": {"backbone", "head"}, "batch_stats"}.

    The words seed XLA's own generator (JAX's "rbg"): programs with it compile three times faster
    than with threefry.
    """
    backbone, head = network.backbone(), Head(outputs)

    def initialise(words):
        backbone_key, head_key = jax.random.split(jax.random.wrap_key_data(words, impl="rbg"))
        images = jnp.zeros((1, network.resolution, network.resolution, 3))
        body = backbone.init(backbone_key, images, train=False)
        features = backbone.apply(body, images, train=False)
        return {
            "params": {"backbone": body["params"], "head": head.init(head_key, features)["params"]},
            "batch_stats": body.get("batch_stats", {}),
        }

    return initialise


def begin(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the carry of `step_program` before the first step."""
    still = jax.tree.map(lambda p: np.zeros(p.shape, p.dtype), variables["params"])
    return dict(variables) | {
        "momentum": still,
        "loss_sum": np.float32(0),
        "finite_steps": np.int32(0),
    }


@made_once
def step_program(
    network: Network,
    outputs: int,
    augment: Augmentation,
    momentum: float,
    decay: float,
    helpers: tuple[int, ...] = (),
    learned: tuple[str, ...] = (),
):
    """Returns the training step.

    f(carry, stored uint8[b, s, 3, s], sizes int32[b, 2], target, key, step, rate, smoothing, shape,
    others, weight) → carry. In the carry, `loss_sum` adds up the losses of the current task and
    `finite_steps` counts the steps before the first loss that was not finite. `helpers` are the
    heads' sizes of auxiliary tasks; `others` is one (stored, sizes, target, shape) for each, whose
    loss is scaled by `weight` and whose batch does not reach BatchNorm's running statistics
    (NEVIS'22, Appendix G). `learned` names the parameters that are updated by the beginning of
    their path ("head", "backbone/BasicBlock_3"), all where it is empty; gradients of the others are
    not computed.
    """
    head, optimise = Head(outputs), optimiser(momentum, decay)

    def helping(params, statistics, key, number, helper_batch):
        stored, sizes, target, shape = helper_batch
        images = training_view(key, stored, sizes, network.resolution, augment)
        features, _ = network.features(params["backbone"], statistics, images, train=True)
        logits = Head(helpers[number]).apply({"params": params["helpers"][str(number)]}, features)
        return loss(logits, target, jnp.float32(0), shape)

    def step(
        carry, stored, sizes, target, key, index, rate, smoothing, shape, others=(), weight=0.0
    ):
        key = jax.random.fold_in(key, index)
        images = training_view(key, stored, sizes, network.resolution, augment)

        changing, fixed = _split(carry["params"], learned)
        moving, still = _split(carry["momentum"], learned)

        def objective(changing):
            params = _joined(changing, fixed)
            features, statistics = network.features(
                params["backbone"], carry["batch_stats"], images, train=True
            )
            logits = head.apply({"params": params["head"]}, features)
            own = loss(logits, target, smoothing, shape)
            total = own
            for number, helper_batch in enumerate(others):
                drawn = jax.random.fold_in(key, number + 1)
                total = total + weight * helping(
                    params, carry["batch_stats"], drawn, number, helper_batch
                )
            return total, (own, statistics)

        (_, (value, stats)), gradients = jax.value_and_grad(objective, has_aux=True)(changing)
        before = (optax.MaskedState(optax.EmptyState()), optax.TraceState(moving))
        updates, (_, trace) = optimise.update(gradients, before, changing)
        changed = jax.tree.map(lambda p, u: p - rate * u, changing, updates)
        sound = jnp.isfinite(value) & (carry["finite_steps"] == index)
        return {
            "params": _joined(changed, fixed),
            "batch_stats": stats,
            "momentum": _joined(trace.trace, still),
            "loss_sum": carry["loss_sum"] + value,
            "finite_steps": carry["finite_steps"] + sound.astype(jnp.int32),
        }

    if network.resolution >= LARGE_MAP * getattr(
        network.backbone(), "reduction", network.resolution
    ):
        step.compiler_options = plain_convolutions()
    return step


def _split(tree: Mapping[str, Any], beginnings: Sequence[str]) -> tuple[dict, dict]:
    """Returns the part of a tree whose paths begin so, and the rest; all and nothing for none."""
    if not beginnings:
        return dict(tree), {}
    leaves = flatten_dict(tree)
    chosen = {
        path: leaf
        for path, leaf in leaves.items()
        if any(f"{'/'.join(path)}/".startswith(f"{start}/") for start in beginnings)
    }
    if not chosen:
        names = sorted({"/".join(path[:2]) for path in leaves})
        raise BadInput(unknown("parameter", beginnings[0], names))
    rest = {path: leaf for path, leaf in leaves.items() if path not in chosen}
    return unflatten_dict(chosen), unflatten_dict(rest)


def _joined(a: Mapping[str, Any], b: Mapping[str, Any]) -> Mapping[str, Any]:
    return unflatten_dict(flatten_dict(a) | flatten_dict(b)) if b else a


@made_once
def several_steps(step):
    """Returns `step_program`'s step for k of them in one program.

    stored, sizes, target, index, rate and those of `others` have an axis of k in front.
    """

    def steps(
        carry, stored, sizes, target, key, index, rate, smoothing, shape, others=(), weight=0.0
    ):
        shapes = [batch[3] for batch in others]
        batches = [batch[:3] for batch in others]

        def single_step(carry, inputs):
            stored, sizes, target, index, rate, batches = inputs
            now = tuple((*batch, shape) for batch, shape in zip(batches, shapes, strict=True))
            return step(
                carry, stored, sizes, target, key, index, rate, smoothing, shape, now, weight
            ), None

        return jax.lax.scan(single_step, carry, (stored, sizes, target, index, rate, batches))[0]

    steps.compiler_options = getattr(step, "compiler_options", {})
    return steps


@made_once
def probabilities_program(network: Network, outputs: int):
    """Returns f(variables, images uint8[b, r, r, 3], shape) → float32[b, outputs] probabilities."""
    head = Head(outputs)

    def probabilities(variables, images, shape):
        images = to_unit_range(images)
        features, _ = network.features(
            variables["params"]["backbone"], variables["batch_stats"], images, train=False
        )
        return masked_probabilities(
            head.apply({"params": variables["params"]["head"]}, features), shape
        )

    return probabilities


def predict_probabilities(
    ctx: Context,
    network: Network,
    variables: Mapping[str, Any],
    images: Images,
    kind: str,
    classes: int,
) -> np.ndarray:
    """Returns float32[n, classes] for the paper's evaluation view: central square, resized.

    One program serves all batches. Where the context is sparing, the last batch has a program of
    the next power of two.
    """
    views = images.center_cropped(network.resolution)
    program, shape = (
        ctx.jit(probabilities_program(network, head_size(classes))),
        TaskShape.of(kind, classes),
    )
    params = {name: variables["params"][name] for name in ("backbone", "head")}
    variables = jax.device_put({"params": params, "batch_stats": variables["batch_stats"]})
    answers = []
    for start in range(0, len(views), EVALUATION_BATCH):
        batch = views[start : start + EVALUATION_BATCH]
        missing = (1 << (len(batch) - 1).bit_length() if ctx.sparing else EVALUATION_BATCH) - len(
            batch
        )
        padded = np.pad(batch, ((0, missing), (0, 0), (0, 0), (0, 0))) if missing else batch
        answers.append(np.asarray(program(variables, padded, shape))[: len(batch), :classes])
    return np.concatenate(answers)
