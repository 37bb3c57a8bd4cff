"""Initialisations, which choose the parameters that the trials of a task start from."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from nevis_stream.errors import BadInput
from nevis_stream.learner import Context
from nevis_stream.learners.parts import weights
from nevis_stream.learners.parts.model import Network
from nevis_stream.learners.parts.relatedness import Neighbours
from nevis_stream.storage.checkpoint import Tree
from nevis_stream.streams.task import TaskView

PRETRAINED = "pretrained"


@dataclass(frozen=True)
class Start:
    """The parameters that the trials of a task start from.

    Attributes:
      source: id of the earlier task whose predictor they are, "pretrained", or "random".
      variables: {"params": {"backbone", …}, "batch_stats"}; None for random parameters, which each
        trial draws.
      scores: relatedness of each candidate, if candidates were compared.
    """

    source: str = "random"
    variables: Tree | None = None
    scores: Mapping[str, float] = field(default_factory=dict)


class Initialisation(Protocol):
    """Chooses the backbone that a task starts from.

    Attributes:
      needs_independent: whether later choices need, for each task, a predictor trained on it alone.
      flops: FLOPs of pre-training, charged to the phase `pretrain`.
    """

    needs_independent: bool
    flops: int

    def choose(self, task: TaskView, ctx: Context, network: Network) -> Start:
        """Returns the start; this is called in the phase `select`."""
        ...


@dataclass(frozen=True)
class FromRandom:
    """Random parameters, which each trial draws."""

    needs_independent = False
    flops = 0

    def choose(self, task: TaskView, ctx: Context, network: Network) -> Start:
        """Returns the random start."""
        return Start()


@dataclass(frozen=True)
class FromPrevious:
    """The predictor of the previous task; random parameters for the first task."""

    needs_independent = False
    flops = 0

    def choose(self, task: TaskView, ctx: Context, network: Network) -> Start:
        """Returns the predictor of the previous task."""
        return _start_from(ctx, ctx.past_tasks[-1]) if ctx.past_tasks else Start()


@dataclass(frozen=True)
class FromPretrained:
    """The same pre-trained weights for every task (PT; NEVIS'22, section 5).

    Attributes:
      path: a file that `launch.pretrain` wrote; None if the learner will not be trained.
      flops: FLOPs of pre-training, as recorded in the file.
      digest: digest of the file, which identifies the learner; empty if it is not compared.
    """

    path: str | None
    flops: int = 0
    digest: str = ""
    needs_independent = False

    def choose(self, task: TaskView, ctx: Context, network: Network) -> Start:
        """Returns the weights.

        Raises:
          BadInput: the file has another digest, or no path is known.
        """
        if self.path is None:
            raise BadInput(
                "the path of the pre-trained weights is missing: the config of a run directory"
                " does not contain it."
            )
        return Start(PRETRAINED, weights.load(Path(self.path), network, self.digest))


@dataclass(frozen=True)
class FromRelated:
    """The predictor of the most related earlier task (NEVIS'22, section 5).

    The first task starts from random parameters.

    Attributes:
      neighbours: scores the relatedness of tasks.
      space: feature space of the scores: "dynamic" is that of each task's fine-tuned predictor
        (FT-d), "static" that of a predictor trained on the task alone from random parameters
        (FT-s).
      margin: scores less than this number of standard errors below the highest count as equal to
        it; of several, the latest task is taken, whose predictor was trained on most data. 0 is the
        paper's rule.
      pretrained: pre-trained weights that are also a candidate (PT + FT-d), or None.
    """

    neighbours: Neighbours = Neighbours()
    space: str = "dynamic"
    margin: float = 0.0
    pretrained: FromPretrained | None = None

    @property
    def needs_independent(self) -> bool:
        """Whether later choices need, for each task, a predictor trained on it alone."""
        return self.space == "static"

    @property
    def flops(self) -> int:
        """FLOPs of pre-training."""
        return self.pretrained.flops if self.pretrained else 0

    def choose(self, task: TaskView, ctx: Context, network: Network) -> Start:
        """Returns the candidate with the best score, and all scores."""
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
        enough = best - self.margin * compute_standard_error(
            best, self.neighbours.count_queries(task)
        )
        source = [name for name, score in scores.items() if score >= enough][-1]
        if self.pretrained and source == PRETRAINED:
            return Start(source, self.pretrained.choose(task, ctx, network).variables, scores)
        return _start_from(ctx, source, scores)


def compute_standard_error(score: float, n: int) -> float:
    """Returns the standard error of a share of n answers (Agresti & Coull, 1998).

    Two right and two wrong answers are added; else a score of 1 would have no error even for n = 8.
    """
    share = (score * n + 2) / (n + 4)
    return math.sqrt(share * (1 - share) / (n + 4))


def _start_from(ctx: Context, task_id: str, scores: Mapping[str, float] | None = None) -> Start:
    return Start(task_id, ctx.predictor(task_id)["variables"], scores or {})
