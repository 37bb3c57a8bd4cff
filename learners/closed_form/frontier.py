"""The learner `frontier`: `closed_form` that reuses predictors and can add networks, whose answers
are averaged with those of the ridge regression.

A network is trained in one trial with fixed hyper-parameters, from the network of an earlier task
or from random parameters, and is evaluated on dev only before its first and after its last step.
The weight of its answers, at most 0.6, is that with the lowest error on images of dev, where the
ridge regression has leave-one-out answers.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nevis_stream.datasets.images import Images
from nevis_stream.learner import Context, Predictor, State
from nevis_stream.learners.closed_form import repeats
from nevis_stream.learners.closed_form.config import FrontierConfig
from nevis_stream.learners.closed_form.learner import ClosedForm, log_probabilities, measure_error
from nevis_stream.learners.parts.augmentation import Augmentation
from nevis_stream.learners.parts.fit import train_trial
from nevis_stream.learners.parts.model import Network, predict_probabilities
from nevis_stream.learners.parts.recipe import Recipe
from nevis_stream.storage.checkpoint import Tree
from nevis_stream.streams.task import SINGLE_LABEL, TaskView

_NETWORK = Network(
    "resnet", (("stage_sizes", (1, 1, 1)), ("stem", "strided"), ("width", 16)), resolution=32
)
_HYPER = {"learning_rate": 0.1, "label_smoothing": 0.1}
_MIN_AREA = 0.5  # of a crop; as in the budgets of few steps of the paper's learners
_WEIGHTS = np.arange(13) / 20  # of the network; the ridge regression has the rest
_LEAST = 1e-6  # smaller probabilities count as this


def train_network(
    ctx: Context, task: TaskView, start: Tree | None, steps: int, flip: bool
) -> tuple[Tree, dict[str, Any]]:
    """Returns a network trained on a task, and facts about its training.

    The network is {"variables", "outputs" (of its head), "classes" (int[classes], the output of
    each class)}; the facts are "step" (of the parameters that are kept: 0 or the last), "steps",
    "diverged_at" and "curve", as in docs/run-directory.md.

    Args:
      ctx: the FLOPs are charged to it.
      task: the task.
      start: the network of an earlier task, whose backbone training starts from; None: random.
      steps: number of updates.
      flip: whether training images are mirrored at random.
    """
    augmentation = Augmentation(crop=True, min_area=_MIN_AREA, flip=flip)
    trial = functools.partial(
        train_trial,
        task=task,
        backbone=start and start["variables"],
        recipe=Recipe(_NETWORK, steps, validate_every=steps, augmentation=augmentation),
        helpers=(),
    )
    (result,) = ctx.map(trial, [{"hyper": _HYPER}])
    count = task.num_classes
    network = {"variables": result["variables"], "outputs": count, "classes": np.arange(count)}
    facts = {name: result["info"][name] for name in ("steps", "diverged_at", "curve")}
    return network, facts | {"step": result["step"]}


def predict_network(ctx: Context, network: Tree, kind: str, images: Images) -> np.ndarray:
    """Returns float32[n, classes]: the network's probabilities."""
    outputs = predict_probabilities(
        ctx, _NETWORK, network["variables"], images, kind, network["outputs"]
    )
    return outputs[:, np.asarray(network["classes"])]


def average(
    ctx: Context, ridge: np.ndarray, network: np.ndarray, weight: float, kind: str
) -> np.ndarray:
    """Returns float32[n, classes]: probabilities whose logarithms are averaged.

    Of a single-label task they are normalised over the classes, otherwise over each label and its
    absence.

    Args:
      ctx: a product, a sum and a division for each probability are charged to it, and the
        comparisons with `_LEAST`; powers are not counted.
      ridge: float32[n, classes], probabilities.
      network: float32[n, classes], probabilities.
      weight: of the network, from 0 to 1.
      kind: of the task.
    """

    def mean(a, b):
        return np.maximum(a, _LEAST) ** (1 - weight) * np.maximum(b, _LEAST) ** weight

    ctx.charge((5 if kind == SINGLE_LABEL else 10) * ridge.size)
    yes = mean(ridge, network)
    if kind == SINGLE_LABEL:
        return np.asarray(yes / yes.sum(axis=1, keepdims=True), np.float32)
    return np.asarray(yes / (yes + mean(1 - ridge, 1 - network)), np.float32)


def choose_weight(
    ctx: Context, ridge: np.ndarray, network: np.ndarray, labels: np.ndarray, kind: str
) -> float:
    """Returns the lowest of the network's weights with the lowest error.

    Errors, not likelihoods, decide: the likeliest weight is too high, since averaging also corrects
    how sure the ridge regression is (decision 0053).

    Args:
      ctx: the averages are charged to it.
      ridge: float32[j, classes], leave-one-out probabilities.
      network: float32[j, classes].
      labels: int32[j] or uint8[j, labels].
      kind: of the task.

    Returns:
      0 without images, or where the error is undefined.
    """
    errors = [
        measure_error(kind, labels, average(ctx, ridge, network, weight, kind))
        for weight in _WEIGHTS
    ]
    return 0.0 if None in errors else float(_WEIGHTS[int(np.argmin(errors))])


@dataclass(frozen=True)
class Frontier(ClosedForm):
    """Kernel ridge regression that reuses the predictor of a data set that occurs again.

    With `config.network_steps`, the answers of a network are added where the ridge regression's
    leave-one-out error is above `config.network_above`.
    """

    config: FrontierConfig

    def init(self, ctx: Context) -> State:
        """Returns the state before the first task: no sketches, and no task with a network."""
        return {"sketches": {}, "network_of": ""}

    def train(
        self, task: TaskView, state: State, ctx: Context
    ) -> tuple[State, Sequence[Predictor]]:
        """Reuses the predictor of the same data set if there is one; otherwise fits one."""
        sketches = state["sketches"]
        if self.config.repeats:
            hashes = repeats.hash_images(task.train)
            repeat = repeats.find(task, hashes, sketches, ctx)
            if repeat is not None:
                earlier, classes = repeat
                first = ctx.predictor(earlier)
                tree = repeats.permute(first, classes)
                if len(classes) == len(first["means"]):  # all of its classes
                    state = _rename(state, earlier, task.task_id)
                info = tree["facts"] | {"initialised_from": earlier}
                return state, [Predictor(tree, info=info)]
            sketches = sketches | {task.task_id: repeats.sketch_hashes(hashes)}
        earlier = state["network_of"] if state["network_of"] in ctx.past_tasks else ""
        tree, source = self._with_network(task, earlier, ctx)
        network_of = task.task_id if "network" in tree else state["network_of"]
        info = tree["facts"] | {"initialised_from": source}
        return {"sketches": sketches, "network_of": network_of}, [Predictor(tree, info=info)]

    def _with_network(
        self, task: TaskView, earlier: str, ctx: Context
    ) -> tuple[dict[str, Any], str]:
        """Returns the tree of a predictor, and the task that its network starts from or "random".

        Args:
          task: the task.
          earlier: the task whose network was trained last; "" if there is none, or it is not kept.
          ctx: its context.
        """
        above = self.config.network_above if self.config.network_steps else np.inf
        tree, examples, left_out = self._learn(task, ctx, held_out_above=above)
        from_dev = examples.from_dev[left_out.positions]
        if left_out.error <= above or not from_dev.any():  # without dev there is no weight
            return tree, "random"
        source = earlier if self.config.chained else ""
        start = ctx.predictor(source)["network"] if source else None
        flip = tree["facts"]["hyper"]["mirrored"]
        network, training_facts = train_network(ctx, task, start, self.config.network_steps, flip)
        rows = examples.rows[left_out.positions[from_dev]] - len(task.train)
        single, scores = task.kind == SINGLE_LABEL, left_out.scores[from_dev]
        with ctx.phase("validate"):
            ridge = np.exp(ctx.jit(log_probabilities)(scores, tree["temperature"], single)[0])
            answers = predict_network(ctx, network, task.kind, task.dev.images.take(rows))
            labels = task.dev.labels[rows]
            weight = choose_weight(ctx, ridge, answers, labels, task.kind)
            both = average(ctx, ridge, answers, weight, task.kind)
        dev_error = measure_error(task.kind, labels, both)
        facts = tree["facts"] | {"dev_error": dev_error, "network": training_facts}
        facts["hyper"] = facts["hyper"] | {"network_weight": weight}
        return tree | {"network": network, "weight": weight, "facts": facts}, source or "random"

    def predict(self, predictor: Tree, images: Images, ctx: Context) -> np.ndarray:
        """Returns float32[n, classes] probabilities."""
        ridge = super().predict(predictor, images, ctx)
        if not predictor.get("weight"):
            return ridge
        network = predict_network(ctx, predictor["network"], predictor["kind"], images)
        return average(ctx, ridge, network, predictor["weight"], predictor["kind"])


def _rename(state: State, earlier: str, task_id: str) -> State:
    """Returns the state in which a task takes an earlier one's place: its predictor is kept longer.

    Args:
      state: of `Frontier`.
      earlier: the earlier task's id.
      task_id: that of a task with the same predictor.
    """
    sketches = {
        task_id if name == earlier else name: each for name, each in state["sketches"].items()
    }
    network_of = task_id if state["network_of"] == earlier else state["network_of"]
    return {"sketches": sketches, "network_of": network_of}
