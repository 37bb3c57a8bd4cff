"""The learner `frontier`: `closed_form` that reuses predictors and can add networks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nevis_stream.datasets.images import Images
from nevis_stream.learner import Context, Predictor, State
from nevis_stream.learners.closed_form import averaging, repeats
from nevis_stream.learners.closed_form.config import FrontierConfig
from nevis_stream.learners.closed_form.learner import ClosedForm, error_of, log_probabilities
from nevis_stream.storage.checkpoint import Tree
from nevis_stream.streams.task import SINGLE_LABEL, TaskView


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
            hashes = repeats.hashes(task.train)
            repeat = repeats.find(task, hashes, sketches, ctx)
            if repeat is not None:
                earlier, classes = repeat
                first = ctx.predictor(earlier)
                tree = repeats.permute(first, classes)
                if len(classes) == len(first["means"]):  # all of its classes
                    state = _rename(state, earlier, task.task_id)
                info = tree["facts"] | {"initialised_from": earlier}
                return state, [Predictor(tree, info=info)]
            sketches = sketches | {task.task_id: repeats.sketch(hashes)}
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
          earlier: the latest task with a network; "" if there is none, or it is no longer kept.
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
        network, course = averaging.train(ctx, task, start, self.config.network_steps, flip)
        rows = examples.rows[left_out.positions[from_dev]] - len(task.train)
        single, scores = task.kind == SINGLE_LABEL, left_out.scores[from_dev]
        with ctx.phase("validate"):
            ridge = np.exp(ctx.jit(log_probabilities)(scores, tree["temperature"], single)[0])
            answers = averaging.predict(ctx, network, task.kind, task.dev.images.take(rows))
            labels = task.dev.labels[rows]
            weight = averaging.best_weight(ctx, ridge, answers, labels, task.kind)
            both = averaging.average(ctx, ridge, answers, weight, task.kind)
        dev_error = error_of(task.kind, labels, both)
        facts = tree["facts"] | {"dev_error": dev_error, "network": course}
        facts["hyper"] = facts["hyper"] | {"network_weight": weight}
        return tree | {"network": network, "weight": weight, "facts": facts}, source or "random"

    def predict(self, predictor: Tree, images: Images, ctx: Context) -> np.ndarray:
        """Returns float32[n, classes] probabilities."""
        ridge = super().predict(predictor, images, ctx)
        if not predictor.get("weight"):
            return ridge
        network = averaging.predict(ctx, predictor["network"], predictor["kind"], images)
        return averaging.average(ctx, ridge, network, predictor["weight"], predictor["kind"])


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
