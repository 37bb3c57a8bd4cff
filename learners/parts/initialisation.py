"""Where a model starts: a task's initial parameters, chosen before the trials begin."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from learners.parts import weights
from learners.parts.model import Network
from learners.parts.relatedness import Neighbours
from nevis_stream.errors import BadInput
from nevis_stream.learner import Context
from nevis_stream.run_directory.checkpoint import Tree
from nevis_stream.streams.task import TaskView

PRETRAINED = "pretrained"


@dataclass(frozen=True)
class Start:
    """Where the trials of a task start.

    Attributes:
      source: id of the earlier task whose predictor it is, "pretrained", or "random".
      variables: {"params": {"backbone", …}, "batch_stats"}, or None for random parameters, drawn
        anew for each trial.
      scores: relatedness of each candidate, where candidates were compared.
    """

    source: str = "random"
    variables: Tree | None = None
    scores: Mapping[str, float] = field(default_factory=dict)


class Initialisation(Protocol):
    """Chooses the backbone that a new task starts from.

    Attributes:
      needs_independent: whether every task also needs a predictor trained on it alone, for later
        choices.
      flops: what was spent before the stream on what it brings along; charged to `pretrain`.
    """

    needs_independent: bool
    flops: int

    def choose(self, task: TaskView, ctx: Context, network: Network) -> Start:
        """Returns the start; costs go to the phase `select`, in which this is called."""
        ...


@dataclass(frozen=True)
class FromRandom:
    """Random parameters, drawn anew for each trial."""

    needs_independent = False
    flops = 0

    def choose(self, task: TaskView, ctx: Context, network: Network) -> Start:
        """Returns the random start."""
        return Start()


@dataclass(frozen=True)
class FromPrevious:
    """The predictor chosen for the task just before; random parameters for the first task."""

    needs_independent = False
    flops = 0

    def choose(self, task: TaskView, ctx: Context, network: Network) -> Start:
        """Returns the predictor of the last task met."""
        return _past(ctx, ctx.past_tasks[-1]) if ctx.past_tasks else Start()


@dataclass(frozen=True)
class FromPretrained:
    """The same pre-trained weights for every task (PT; NEVIS'22, section 5).

    Attributes:
      path: a file that `launch.pretrain` wrote; None: no more than past predictors are asked.
      flops: what pre-training cost, as the file says.
      digest: of the file's content, so that another file is another learner; empty: not compared.
    """

    path: str | None
    flops: int = 0
    digest: str = ""
    needs_independent = False

    def choose(self, task: TaskView, ctx: Context, network: Network) -> Start:
        """Returns the weights; `BadInput` where they are not those of the digest."""
        if self.path is None:
            raise BadInput(
                "the config of a run directory does not say where the pre-trained weights are: give"
                " their path."
            )
        return Start(PRETRAINED, weights.load(Path(self.path), network, self.digest))


@dataclass(frozen=True)
class FromRelated:
    """The predictor of the most related earlier task (NEVIS'22, section 5).

    Random parameters for the first task.

    Attributes:
      neighbours: how tasks are scored.
      space: "dynamic": in the feature space of each task's own, fine-tuned predictor (FT-d);
        "static": in that of a predictor trained on the task alone, from random parameters (FT-s).
      margin: scores that lie fewer standard errors than this below the highest count as equal to
        it; of several, the latest task is taken, whose predictor has learned from most. 0 is the
        paper's rule.
      pretrained: weights that are a candidate besides the earlier tasks (PT + FT-d), or None.
    """

    neighbours: Neighbours = Neighbours()
    space: str = "dynamic"
    margin: float = 0.0
    pretrained: FromPretrained | None = None

    @property
    def needs_independent(self) -> bool:
        """Whether every task also needs a predictor trained on it alone."""
        return self.space == "static"

    @property
    def flops(self) -> int:
        """What pre-training cost."""
        return self.pretrained.flops if self.pretrained else 0

    def choose(self, task: TaskView, ctx: Context, network: Network) -> Start:
        """Returns the predictor with the best score, and all scores."""
        scores = {}
        if self.pretrained:
            variables = self.pretrained.choose(task, ctx, network).variables
            scores[PRETRAINED] = round(self.neighbours.score(ctx, task, network, variables), 6)
        for task_id in ctx.past_tasks:
            tree: Any = ctx.predictor(task_id)
            variables = tree["independent"] if self.needs_independent else tree["variables"]
            scores[task_id] = round(self.neighbours.score(ctx, task, network, variables), 6)
        if not scores:
            return Start()
        best = max(scores.values())
        enough = best - self.margin * standard_error(best, self.neighbours.n_queries(task))
        source = [name for name, score in scores.items() if score >= enough][-1]
        if self.pretrained and source == PRETRAINED:
            return Start(source, self.pretrained.choose(task, ctx, network).variables, scores)
        return _past(ctx, source, scores)


def standard_error(score: float, n: int) -> float:
    """Returns the standard error of a share of n answers, with two right and two wrong ones added.

    Without these a score of 1 would have no error, even from eight pictures (Agresti & Coull 1998).
    """
    share = (score * n + 2) / (n + 4)
    return math.sqrt(share * (1 - share) / (n + 4))


def _past(ctx: Context, task_id: str, scores: Mapping[str, float] | None = None) -> Start:
    return Start(task_id, ctx.predictor(task_id)["variables"], scores or {})
