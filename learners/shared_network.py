"""One network for all tasks, which is asked again for each task that was met: fine-tuned, with a
memory of earlier images (replay), or with a penalty on changes (EWC).

Each task has columns of one head: columns of its own, or, in a stream with a single head, those of
all classes so far. What a batch is not about is masked, so that images of several tasks are in one.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from nevis_stream.datasets.images import Images
from nevis_stream.learner import Context, Predictor, State
from nevis_stream.learners.parts.networks.convolution import convolve
from nevis_stream.storage.checkpoint import Tree, to_host
from nevis_stream.streams.task import SINGLE_LABEL, LabelledImages, TaskView
from nevis_stream.training import descent

_COLUMNS = 64  # the head grows by so many, since each size is compiled
_CHUNK = 128  # images that are predicted at a time
_FISHER = 256  # images of a task from which its Fisher information is estimated


def _option(default: Any, help: str, low: float, high: float) -> Any:
    return field(default=default, metadata={"help": help, "range": (low, high)})


@dataclass(frozen=True)
class SharedNetwork:
    """A convolutional network that goes on training on each task, and answers for all of them."""

    method: Literal["finetune", "replay", "ewc"] | None = field(
        default=None, metadata={"help": "what keeps earlier tasks; None: nothing", "label": True}
    )
    steps: int = _option(150, "training steps of each task", 1, 10**7)
    batch: int = _option(
        32, "images of a task in a step; with replay, as many earlier ones", 1, 4096
    )
    rate: float = _option(1e-3, "learning rate of Adam", 1e-9, 10)
    width: int = _option(32, "channels of the first of three convolutions", 1, 4096)
    resolution: int = _option(32, "side of the reduced images, in pixels", 8, 1024)
    memory: int = _option(500, "images that replay remembers, as many of each task", 1, 10**7)
    penalty: float = _option(1000.0, "weight of EWC's penalty", 0, 1e12)

    def init(self, ctx: Context) -> State:
        """Returns random kernels and a head without classes."""
        channels = 3, self.width, 2 * self.width, 4 * self.width
        kernels = [
            ctx.generator("kernel", layer).normal(0, np.sqrt(2 / (9 * fan)), (3, 3, fan, out))
            for layer, (fan, out) in enumerate(zip(channels, channels[1:], strict=False))
        ]
        parameters = {
            "kernels": [kernel.astype(np.float32) for kernel in kernels],
            "weights": np.zeros((channels[-1], 0), np.float32),
            "biases": np.zeros(0, np.float32),
        }
        return {"parameters": parameters, "columns": {}, "total": 0}

    def train(
        self, task: TaskView, state: State, ctx: Context
    ) -> tuple[State, Sequence[Predictor]]:
        """Trains the network on a task, with what the method has of the earlier ones."""
        first = 0 if task.single_head else state["total"]
        columns = [first, task.num_classes]
        total = max(state["total"], sum(columns))
        size = -(-total // _COLUMNS) * _COLUMNS
        own = self._samples(task.train, task.kind, columns, size)
        parameters = _widen(state["parameters"], size)
        memory = {name: _widen(part, size) for name, part in state.get("memory", {}).items()}
        if task.single_head:  # earlier images are told from the new classes too
            memory = {
                n: part | {"mask": part["mask"] | own["mask"][:1]} for n, part in memory.items()
            }
        earlier = _join(list(memory.values())) if memory else None
        kept = (
            (_widen(state["fisher"], size), _widen(state["anchor"], size))
            if "fisher" in state
            else ()
        )
        step, optimiser = _make_program(self.rate, bool(kept))
        advance, random = ctx.jit(step), ctx.generator("batches")
        others = (*kept, np.float32(self.penalty)) if kept else ()
        position = descent.begin(optimiser, parameters)
        for number in range(self.steps):
            drawn = _take(own, random.integers(len(own["pixels"]), size=self.batch))
            if earlier is not None:
                rows = random.integers(len(earlier["pixels"]), size=self.batch)
                drawn = _join([drawn, _take(earlier, rows)])
            position = advance(position, drawn, *others)
            ctx.progress(number + 1, self.steps)
        parameters = to_host(position[0], copy=True)
        after = {"parameters": parameters, "total": total}
        after["columns"] = state["columns"] | {task.task_id: columns}
        if self.method == "replay":
            quota = max(1, self.memory // len(after["columns"]))
            rows = random.permutation(len(own["pixels"]))[:quota]
            after["memory"] = {
                name: {key: array[:quota] for key, array in part.items()}
                for name, part in (memory | {task.task_id: _take(own, rows)}).items()
            }
        if self.method == "ewc":
            rows = random.integers(len(own["pixels"]), size=_FISHER)
            fisher = ctx.jit(_estimate_fisher)(parameters, _take(own, rows))
            if kept:
                fisher = jax.tree.map(np.add, to_host(fisher), kept[0])
            after |= {"fisher": to_host(fisher, copy=True), "anchor": parameters}
        before = next(reversed(state["columns"]), "random")
        info = {"initialised_from": before, "steps": self.steps}
        predictor = _cut(parameters, columns, task.kind)
        return after, [Predictor(predictor, step=self.steps, info=info)]

    def predictor_for(self, task: TaskView, state: State, ctx: Context) -> Predictor:
        """Returns the network as it is, with the columns of an earlier task."""
        first, classes = state["columns"][task.task_id]
        classes = task.num_classes if task.single_head else classes
        return Predictor(_cut(state["parameters"], [first, classes], task.kind))

    def predict(self, predictor: Tree, images: Images, ctx: Context) -> np.ndarray:
        """Returns float32[n, classes] probabilities."""
        pixels, answers = images.center_cropped(self.resolution), []
        answer = ctx.jit(_find_logits)
        for start in range(0, len(pixels), _CHUNK):
            chunk = pixels[start : start + _CHUNK]
            padded = np.pad(chunk, ((0, _CHUNK - len(chunk)), (0, 0), (0, 0), (0, 0)))
            answers.append(np.asarray(answer(predictor["parameters"], padded))[: len(chunk)])
        logits = np.concatenate(answers)
        if predictor["kind"] != SINGLE_LABEL:
            return 1 / (1 + np.exp(-logits))
        scores = np.exp(logits - logits.max(1, keepdims=True))
        return scores / scores.sum(1, keepdims=True)

    def _samples(
        self, samples: LabelledImages, kind: str, columns: Sequence[int], size: int
    ) -> dict[str, np.ndarray]:
        """Returns pixels, targets and masks uint8[n, size] of the head's columns, and which images
        are of one class.
        """
        first, classes = columns
        single = kind == SINGLE_LABEL
        labels = np.eye(classes, dtype=np.uint8)[samples.labels] if single else samples.labels
        around = (0, 0), (first, size - first - classes)
        return {
            "pixels": samples.images.center_cropped(self.resolution),
            "targets": np.pad(labels.astype(np.uint8), around),
            "mask": np.pad(np.ones_like(labels, np.uint8), around),
            "single": np.full(len(labels), single, np.uint8),
        }


def _take(samples: Mapping[str, np.ndarray], rows: np.ndarray) -> dict[str, np.ndarray]:
    return {name: array[rows] for name, array in samples.items()}


def _join(parts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


_OF_COLUMNS = ("weights", "biases", "targets", "mask")


def _widen(tree: Mapping[str, Any], size: int) -> dict[str, Any]:
    """Returns parameters or samples with zeros for the columns that a head of `size` has more."""
    return {
        name: np.pad(leaf, [(0, 0)] * (leaf.ndim - 1) + [(0, size - leaf.shape[-1])])
        if name in _OF_COLUMNS
        else leaf
        for name, leaf in tree.items()
    }


def _cut(parameters: Mapping[str, Any], columns: Sequence[int], kind: str) -> Tree:
    """Returns the tree of a predictor: the network with some columns of its head."""
    first, classes = columns
    head = {name: parameters[name][..., first : first + classes] for name in ("weights", "biases")}
    return {"parameters": {**parameters, **head}, "kind": kind}


def _find_logits(parameters: Any, pixels: jax.Array) -> jax.Array:
    x = pixels.astype(jnp.float32) / 127.5 - 1
    for kernel in parameters["kernels"]:
        x = convolve(x, kernel, 2)
        # over each image alone, so that a batch's other images do not matter
        x = (x - x.mean((1, 2, 3), keepdims=True)) * jax.lax.rsqrt(
            x.var((1, 2, 3), keepdims=True) + 1e-5
        )
        x = jax.nn.relu(x)
    return x.mean((1, 2)) @ parameters["weights"] + parameters["biases"]


def _loss(parameters: Any, batch: Mapping[str, jax.Array]) -> jax.Array:
    """Cross-entropy of images of one class, over the columns of their tasks, and the mean over
    labels of the binary one for the others.
    """
    logits, targets, mask = (
        _find_logits(parameters, batch["pixels"]),
        batch["targets"],
        batch["mask"],
    )
    among = jax.nn.log_softmax(jnp.where(mask > 0, logits, -1e9))
    one = -(targets * among).sum(-1)
    each = jax.nn.softplus(logits) - targets * logits
    several = (mask * each).sum(-1) / mask.sum(-1, dtype=jnp.float32)
    return jnp.where(batch["single"] > 0, one, several).mean()


def _held_loss(
    parameters: Any, batch: Mapping[str, jax.Array], fisher: Any, anchor: Any, penalty: jax.Array
) -> jax.Array:
    """The loss with EWC's penalty (Kirkpatrick et al. 2017, equation 3; the information of all
    earlier tasks is added up, around the last parameters, as by Schwarz et al. 2018).
    """
    far = jax.tree.map(lambda f, p, a: (f * (p - a) ** 2).sum(), fisher, parameters, anchor)
    return _loss(parameters, batch) + penalty / 2 * sum(jax.tree.leaves(far))


def _estimate_fisher(parameters: Any, samples: Mapping[str, jax.Array]) -> Any:
    """The mean square of the gradient of each image's loss."""

    def squares(sample):
        gradients = jax.grad(_loss)(parameters, jax.tree.map(lambda x: x[None], sample))
        return jax.tree.map(jnp.square, gradients)

    return jax.tree.map(lambda x: x.mean(0), jax.vmap(squares)(samples))


@functools.cache
def _make_program(rate: float, held: bool) -> tuple[Any, Any]:
    """Returns the program of a step, and its optimiser."""
    optimiser = descent.make_optimiser(rate)
    return descent.make_step(_held_loss if held else _loss, optimiser.update), optimiser
