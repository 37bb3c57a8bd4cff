"""The learner `frontier`: `closed_form` that reuses the predictor of a data set that recurs."""

from collections.abc import Sequence
from dataclasses import dataclass

from learners.closed_form import repeats
from learners.closed_form.config import FrontierConfig
from learners.closed_form.learner import ClosedForm
from nevis_stream.learner import Context, Predictor, State
from nevis_stream.streams.task import TaskView


@dataclass(frozen=True)
class Frontier(ClosedForm):
    """Kernel ridge regression that reuses the predictor of a data set that occurs again."""

    config: FrontierConfig

    def init(self, ctx: Context) -> State:
        """Returns the state before the first task, which has no sketches."""
        return {"sketches": {}}

    def train(
        self, task: TaskView, state: State, ctx: Context
    ) -> tuple[State, Sequence[Predictor]]:
        """Reuses the predictor of the same data set if there is one; otherwise fits one."""
        if not self.config.repeats:
            return super().train(task, state, ctx)
        hashes = repeats.hashes(task.train)
        repeat = repeats.find(task, hashes, state["sketches"], ctx)
        if repeat is None:
            _, predictors = super().train(task, state, ctx)
            sketches = state["sketches"] | {task.task_id: repeats.sketch(hashes)}
            return {"sketches": sketches}, predictors
        earlier, classes = repeat
        tree = repeats.permuted(ctx.predictor(earlier), classes)
        return state, [Predictor(tree, info=tree["facts"] | {"initialised_from": earlier})]
