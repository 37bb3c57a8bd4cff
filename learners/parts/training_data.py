"""Auxiliary tasks: earlier tasks that a trial also trains on (NEVIS'22, Appendix G)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from nevis_stream.learner import Context

AUXILIARY_BATCH = 64


class AuxiliaryChoice(Protocol):
    """Chooses the auxiliary tasks of a task.

    Attributes:
      by_relatedness: whether the choice needs scores of relatedness, which are computed if the
        initialisation has none.
      drawn: how many of the chosen tasks are drawn anew at each update; None: all are used.
    """

    by_relatedness: bool
    drawn: int | None

    def choose(self, ctx: Context, scores: Mapping[str, float]) -> Sequence[str]:
        """Returns ids of earlier tasks; `scores` are their scores of relatedness."""
        ...

    def most(self, earlier: int) -> int:
        """Returns the largest number of tasks that an update uses of `earlier` ones."""
        ...


@dataclass(frozen=True)
class NoAuxiliaryTasks:
    """Chooses no auxiliary task."""

    by_relatedness = False
    drawn = None

    def choose(self, ctx: Context, scores: Mapping[str, float]) -> Sequence[str]:
        """Returns nothing."""
        return ()

    def most(self, earlier: int) -> int:
        """Returns 0."""
        return 0


@dataclass(frozen=True)
class EarlierTasks:
    """Chooses earlier tasks.

    Attributes:
      count: number of tasks at each update, unless all are taken.
      which: "related" (those with the highest scores), "all", or "random", which draws them anew at
        each update (NEVIS'22, Appendix G, Figure 23).
    """

    count: int = 1
    which: str = "related"

    @property
    def by_relatedness(self) -> bool:
        """Whether the choice needs scores."""
        return self.which == "related"

    @property
    def drawn(self) -> int | None:
        """The number of tasks drawn at each update."""
        return self.count if self.which == "random" else None

    def choose(self, ctx: Context, scores: Mapping[str, float]) -> Sequence[str]:
        """Returns the earlier tasks."""
        past = ctx.past_tasks
        if self.which in ("all", "random"):
            return past
        latest_first = list(reversed(past))
        return tuple(
            sorted(latest_first, key=lambda task_id: -scores.get(task_id, 0.0))[: self.count]
        )

    def most(self, earlier: int) -> int:
        """Returns `count`, or the number of earlier tasks if all are taken."""
        return earlier if self.which == "all" else min(self.count, earlier)
