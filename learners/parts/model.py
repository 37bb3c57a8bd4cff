"""A backbone with a linear head for each task, and the jitted programs that train and evaluate it.

Programs come from cached factories, keyed by what changes their code: the network and the size of
the head. Everything else (learning rate, label smoothing, number of classes, kind of task, key) is
an argument, so that trials and tasks share programs. A head has 64, 256, 1024, … outputs, the
smallest number that is enough for the task's classes; the others are masked, and their FLOPs are
charged too.
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

from nevis_stream.cost.counted import choose_convolution_options, make_once
from nevis_stream.datasets.images import Images
from nevis_stream.errors import BadInput, unknown
from nevis_stream.learner import Context
from nevis_stream.learners.parts.augmentation import Augmentation, augment_batch, to_unit_range
from nevis_stream.learners.parts.networks import Head, make_backbone
from nevis_stream.streams.task import SINGLE_LABEL
from nevis_stream.training.descent import apply_momentum

EVALUATION_BATCH = 64
# side of the first stage's maps from which gradients of kernels are faster without XLA's YNN
LARGE_MAP = 32
_MASKED = -1e9


@dataclass(frozen=True)
class Network:
    """A backbone with its resolution and precision.

    Attributes:
      name: one of the names of `make_backbone`.
      options: its options, as sorted pairs, which can be hashed.
      resolution: side of the input in pixels.
      precision: "float32", or "bfloat16", in which only the backbone computes; parameters, their
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
          statistics: running statistics of normalisation; {} if there are none.
          images: float32[b, r, r, 3] in [-1, 1].
          train: whether to normalise by the statistics of the batch instead of the running ones.

        Returns:
          float32[b, features], and the running statistics, which only `train` changes.
        """
        if self.precision != "float32":
            params, images = jax.tree.map(lambda x: x.astype(self.precision), (params, images))
        variables = {"params": params, "batch_stats": statistics}
        if not train:
            features = self.backbone().apply(variables, images, train=False)
            return features.astype(jnp.float32), statistics
        features, updated = self.backbone().apply(
            variables, images, train=True, mutable=["batch_stats"]
        )
        return features.astype(jnp.float32), updated.get("batch_stats", {})


def choose_head_size(classes: int) -> int:
    """Returns the number of outputs of a head for `classes` classes: 64, 256, 1024, …"""
    size = 64
    while size < classes:
        size *= 4
    return size


def _mask(logits: jax.Array, classes: jax.Array) -> jax.Array:
    return jnp.where(jnp.arange(logits.shape[-1]) < classes, logits, _MASKED)


def predict_masked(logits: jax.Array, shape: "TaskShape") -> jax.Array:
    """Returns float32[b, outputs]: softmax over the task's classes, or a sigmoid for each label."""
    single = jax.nn.softmax(_mask(logits, shape.classes))
    return jnp.where(shape.multi_label, jax.nn.sigmoid(logits), single)


def encode_targets(labels: np.ndarray, kind: str, classes: int) -> np.ndarray:
    """Returns uint8[n, outputs] with a 1 at every label of a sample, as wide as the task's head.

    Args:
      labels: int32[n] class ids, or uint8[n, classes] with 0 or 1.
      kind: "single_label" or "multi_label".
      classes: number of classes.
    """
    out = np.zeros((len(labels), choose_head_size(classes)), np.uint8)
    if kind == SINGLE_LABEL:
        out[np.arange(len(labels)), labels] = 1
    else:
        out[:, :classes] = labels
    return out


@struct.dataclass
class TaskShape:
    """The facts of a task that a program needs; as arguments, so that tasks share programs.

    Attributes:
      classes: float32[], number of classes, which are the first outputs of the head.
      multi_label: bool[].
    """

    classes: np.ndarray
    multi_label: np.ndarray

    @classmethod
    def of(cls, kind: str, classes: int) -> "TaskShape":
        """Returns the shape of a task."""
        return cls(np.float32(classes), np.bool_(kind != SINGLE_LABEL))


def compute_loss(
    logits: jax.Array, target: jax.Array, smoothing: jax.Array, shape: TaskShape
) -> jax.Array:
    """Returns the mean cross-entropy with label smoothing (NEVIS'22, section 4).

    It is that of a softmax, or for multi-label tasks that of sigmoids, averaged over labels.

    Args:
      logits: float32[b, outputs], of which the first `shape.classes` are used.
      target: uint8[b, outputs] with 0 or 1.
      smoothing: ε; the smoothed targets are (1-ε) onehot + ε/C, or (1-ε) y + ε/2 for multi-label.
      shape: number of classes and kind of the task.
    """
    valid = jnp.arange(logits.shape[-1]) < shape.classes
    smoothed = (1 - smoothing) * target + smoothing / jnp.where(shape.multi_label, 2, shape.classes)
    single = -smoothed * jax.nn.log_softmax(_mask(logits, shape.classes))
    multi = optax.sigmoid_binary_cross_entropy(logits, smoothed) / shape.classes
    return jnp.where(valid, jnp.where(shape.multi_label, multi, single), 0).sum(-1).mean()


@make_once
def initialise_program(network: Network, outputs: int):
    """Returns f(words uint32[4]) → variables: {"params": {"backbone", "head"}, "batch_stats"}.

    The words seed XLA's own generator (JAX's "rbg"), with which a program compiles three times
    faster than with threefry.
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
    zeros = jax.tree.map(lambda p: np.zeros(p.shape, p.dtype), variables["params"])
    return dict(variables) | {
        "momentum": zeros,
        "loss_sum": np.float32(0),
        "finite_steps": np.int32(0),
    }


@make_once
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
    others, weight) → carry. In the carry, `loss_sum` is the sum of the current task's losses and
    `finite_steps` the number of steps before the first loss that was not finite.

    Args:
      network: backbone and resolution.
      outputs: size of the head.
      augment: how training views are made.
      momentum: coefficient of Nesterov momentum.
      decay: weight of L2 on kernels.
      helpers: sizes of the heads of the auxiliary tasks (NEVIS'22, Appendix G). `others` has a
        (stored, sizes, target, shape) for each; their losses are scaled by `weight`, and their
        batches do not change BatchNorm's running statistics.
      learned: the beginnings of the paths of the parameters that are updated ("head",
        "backbone/BasicBlock_3"); empty means all. Gradients of the others are not computed.
    """
    head = Head(outputs)

    def helping(params, statistics, key, number, helper_batch):
        stored, sizes, target, shape = helper_batch
        images = augment_batch(key, stored, sizes, network.resolution, augment)
        features, _ = network.features(params["backbone"], statistics, images, train=True)
        logits = Head(helpers[number]).apply({"params": params["helpers"][str(number)]}, features)
        return compute_loss(logits, target, jnp.float32(0), shape)

    def step(
        carry, stored, sizes, target, key, index, rate, smoothing, shape, others=(), weight=0.0
    ):
        key = jax.random.fold_in(key, index)
        images = augment_batch(key, stored, sizes, network.resolution, augment)

        changing, fixed = _split(carry["params"], learned)
        momenta, fixed_momenta = _split(carry["momentum"], learned)

        def objective(changing):
            params = _join(changing, fixed)
            features, statistics = network.features(
                params["backbone"], carry["batch_stats"], images, train=True
            )
            logits = head.apply({"params": params["head"]}, features)
            task_loss = total = compute_loss(logits, target, smoothing, shape)
            for number, helper_batch in enumerate(others):
                drawn = jax.random.fold_in(key, number + 1)
                total = total + weight * helping(
                    params, carry["batch_stats"], drawn, number, helper_batch
                )
            return total, (task_loss, statistics)

        (_, (value, stats)), gradients = jax.value_and_grad(objective, has_aux=True)(changing)
        changed, momenta = apply_momentum(gradients, momenta, changing, rate, momentum, decay)
        is_finite = jnp.isfinite(value) & (carry["finite_steps"] == index)
        return {
            "params": _join(changed, fixed),
            "batch_stats": stats,
            "momentum": _join(momenta, fixed_momenta),
            "loss_sum": carry["loss_sum"] + value,
            "finite_steps": carry["finite_steps"] + is_finite.astype(jnp.int32),
        }

    if network.resolution >= LARGE_MAP * getattr(
        network.backbone(), "reduction", network.resolution
    ):
        step.compiler_options = choose_convolution_options()  # type: ignore[attr-defined]
    return step


def _split(tree: Mapping[str, Any], beginnings: Sequence[str]) -> tuple[dict, dict]:
    """Splits a tree into the leaves whose paths have one of these beginnings, and the others.

    Without beginnings, all leaves are in the first part.
    """
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


def _join(a: Mapping[str, Any], b: Mapping[str, Any]) -> Mapping[str, Any]:
    return unflatten_dict(flatten_dict(a) | flatten_dict(b)) if b else a


@make_once
def chain_steps(step):
    """Returns the program of k steps, where `step` is that of one (`step_program`).

    Its arguments stored, sizes, target, index, rate and the batches in `others` have a first axis
    of size k.
    """

    def steps(
        carry, stored, sizes, target, key, index, rate, smoothing, shape, others=(), weight=0.0
    ):
        shapes = [batch[3] for batch in others]
        batches = [batch[:3] for batch in others]

        def single_step(carry, inputs):
            stored, sizes, target, index, rate, batches = inputs
            with_shapes = zip(batches, shapes, strict=True)
            helping = tuple((*batch, helper_shape) for batch, helper_shape in with_shapes)
            return step(
                carry, stored, sizes, target, key, index, rate, smoothing, shape, helping, weight
            ), None

        return jax.lax.scan(single_step, carry, (stored, sizes, target, index, rate, batches))[0]

    options = getattr(step, "compiler_options", {})
    steps.compiler_options = options  # type: ignore[attr-defined]
    return steps


@make_once
def make_prediction_program(network: Network, outputs: int):
    """Returns f(variables, images uint8[b, r, r, 3], shape) → float32[b, outputs] probabilities."""
    head = Head(outputs)

    def probabilities(variables, images, shape):
        images = to_unit_range(images)
        features, _ = network.features(
            variables["params"]["backbone"], variables["batch_stats"], images, train=False
        )
        return predict_masked(head.apply({"params": variables["params"]["head"]}, features), shape)

    return probabilities


def predict_probabilities(
    ctx: Context,
    network: Network,
    variables: Mapping[str, Any],
    images: Images,
    kind: str,
    classes: int,
) -> np.ndarray:
    """Returns float32[n, classes] for the paper's evaluation view: the central square, resized.

    One program serves all batches; with `ctx.small_batches` the last batch has the program of
    the next power of two.
    """
    views = images.center_cropped(network.resolution)
    program = ctx.jit(make_prediction_program(network, choose_head_size(classes)))
    shape = TaskShape.of(kind, classes)
    params = {name: variables["params"][name] for name in ("backbone", "head")}
    variables = jax.device_put({"params": params, "batch_stats": variables["batch_stats"]})
    answers = []
    for start in range(0, len(views), EVALUATION_BATCH):
        batch = views[start : start + EVALUATION_BATCH]
        size = 1 << (len(batch) - 1).bit_length() if ctx.small_batches else EVALUATION_BATCH
        missing = size - len(batch)
        padded = np.pad(batch, ((0, missing), (0, 0), (0, 0), (0, 0))) if missing else batch
        answers.append(np.asarray(program(variables, padded, shape))[: len(batch), :classes])
    return np.concatenate(answers)
