"""Where a model starts: a task's initial parameters, chosen before the trials begin."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from learners.parts.model import Network
from learners.parts.relatedness import Neighbours
from nevis_stream.learner import Context
from nevis_stream.task import TaskView


class Initialisation(Protocol):
    """Chooses the earlier task whose backbone a new task starts from.

    Attributes:
      needs_independent: whether every task also needs a predictor trained on it alone, for later choices.
    """

    needs_independent: bool

    def choose(self, task: TaskView, ctx: Context, network: Network) -> tuple[str | None, Mapping[str, float]]:
        """Returns the id of an earlier task, or None for random parameters, and the score of each task that was compared.

        Costs go to the phase `select`, in which this is called.
        """
        ...


@dataclass(frozen=True)
class FromRandom:
    """Random parameters, drawn anew for each trial."""

    needs_independent = False

    def choose(self, task: TaskView, ctx: Context, network: Network) -> tuple[str | None, Mapping[str, float]]:
        """Returns None."""
        return None, {}


@dataclass(frozen=True)
class FromPrevious:
    """The predictor chosen for the task just before; random parameters for the first task."""

    needs_independent = False

    def choose(self, task: TaskView, ctx: Context, network: Network) -> tuple[str | None, Mapping[str, float]]:
        """Returns the id of the last task met."""
        return (ctx.past_tasks[-1] if ctx.past_tasks else None), {}


@dataclass(frozen=True)
class FromRelated:
    """The predictor of the most related earlier task (NEVIS'22, section 5); random parameters for the first task.

    Attributes:
      neighbours: how tasks are scored.
      space: "dynamic": in the feature space of each task's own, fine-tuned predictor (FT-d); "static": in that of a predictor
        trained on the task alone, from random parameters (FT-s).
      margin: scores that lie fewer standard errors than this below the highest count as equal to it; of equals the latest task
        is taken, whose predictor has learned from most. 0 is the paper's rule.
    """

    neighbours: Neighbours = Neighbours()
    space: str = "dynamic"
    margin: float = 0.0

    @property
    def needs_independent(self) -> bool:
        """Whether every task also needs a predictor trained on it alone."""
        return self.space == "static"

    def choose(self, task: TaskView, ctx: Context, network: Network) -> tuple[str | None, Mapping[str, float]]:
        """Returns the id of the earlier task, and all scores."""
        scores = {}
        for task_id in ctx.past_tasks:
            tree: Any = ctx.predictor(task_id)
            variables = tree["independent"] if self.needs_independent else tree["variables"]
            scores[task_id] = round(self.neighbours.score(ctx, task, network, variables), 6)
        if not scores:
            return None, {}
        best = max(scores.values())
        error = math.sqrt(best * (1 - best) / self.neighbours.asked(task))
        return [task_id for task_id, score in scores.items() if score >= best - self.margin * error][-1], scores
