"""Auxiliary tasks: earlier tasks that a trial also trains on (NEVIS'22, Appendix G)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from nevis_stream.learner import Context

AUXILIARY_BATCH = 64


class TrainingData(Protocol):
    """Chooses the auxiliary tasks of a task.

    Attributes:
      by_relatedness: whether the choice needs scores of relatedness, which are computed if the
        initialisation has none.
    """

    by_relatedness: bool

    def choose(self, ctx: Context, scores: Mapping[str, float]) -> Sequence[str]:
        """Returns ids of earlier tasks; `scores` are their scores of relatedness."""
        ...

    def most(self, earlier: int) -> int:
        """Returns the largest number of tasks that are chosen from `earlier` ones."""
        ...


@dataclass(frozen=True)
class Current:
    """No auxiliary task."""

    by_relatedness = False

    def choose(self, ctx: Context, scores: Mapping[str, float]) -> Sequence[str]:
        """Returns nothing."""
        return ()

    def most(self, earlier: int) -> int:
        """Returns 0."""
        return 0


@dataclass(frozen=True)
class Auxiliary:
    """Earlier tasks.

    Attributes:
      count: number of tasks, unless all are taken.
      which: "related" (those with the highest scores), "all" or "random".
    """

    count: int = 1
    which: str = "related"

    @property
    def by_relatedness(self) -> bool:
        """Whether the choice needs scores."""
        return self.which == "related"

    def choose(self, ctx: Context, scores: Mapping[str, float]) -> Sequence[str]:
        """Returns the earlier tasks."""
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
        """Returns `count`, or the number of earlier tasks if all are taken."""
        return earlier if self.which == "all" else min(self.count, earlier)
