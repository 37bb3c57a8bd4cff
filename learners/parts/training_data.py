"""Auxiliary training data: tasks of the past, trained along (NEVIS'22, Appendix G)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from nevis_stream.learner import Context

AUXILIARY_BATCH = 64


class TrainingData(Protocol):
    """Chooses the auxiliary tasks of a new task.

    Attributes:
      by_relatedness: whether the choice needs scores, which are then computed where the
        initialisation found none.
    """

    by_relatedness: bool

    def choose(self, ctx: Context, scores: Mapping[str, float]) -> Sequence[str]:
        """Returns ids of earlier tasks; `scores` are the initialisation's scores of relatedness."""
        ...

    def most(self, earlier: int) -> int:
        """Returns how many tasks are chosen, by the number of earlier ones."""
        ...


@dataclass(frozen=True)
class Current:
    """The current task alone."""

    by_relatedness = False

    def choose(self, ctx: Context, scores: Mapping[str, float]) -> Sequence[str]:
        """Returns nothing."""
        return ()

    def most(self, earlier: int) -> int:
        """Returns 0."""
        return 0


@dataclass(frozen=True)
class Auxiliary:
    """The current task and k earlier ones.

    Attributes:
      count: k.
      which: "related" (highest scores), "all" or "random" (drawn for the task).
    """

    count: int = 1
    which: str = "related"

    @property
    def by_relatedness(self) -> bool:
        """Whether the choice needs scores."""
        return self.which == "related"

    def choose(self, ctx: Context, scores: Mapping[str, float]) -> Sequence[str]:
        """Returns up to k earlier tasks."""
        past = ctx.past_tasks
        if self.which == "all":
            return past
        if self.which == "random":
            drawn = ctx.generator("auxiliary tasks").permutation(len(past))
            return tuple(past[i] for i in drawn[: self.count])
        latest_first = list(reversed(past))
        return tuple(
            sorted(latest_first, key=lambda task_id: -scores.get(task_id, 0.0))[: self.count]
        )

    def most(self, earlier: int) -> int:
        """Returns k, or all."""
        return earlier if self.which == "all" else min(self.count, earlier)
