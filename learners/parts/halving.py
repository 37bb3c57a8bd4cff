"""Successive halving: only the best trials are trained to the end (Jamieson and Talwalkar, 2016).

All trials of a rung are compared at the same step, as in synchronous ASHA, so that the result does
not depend on the executor. Each piece of a trial is a trial of `ctx.map`, so the FLOPs of pruned
trials are counted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nevis_stream.learner import Context
from nevis_stream.learners.parts.search import Hyper
from nevis_stream.storage.checkpoint import Tree

Piece = Callable[[Context, dict[str, Any]], Tree]
"""Trains with `item["hyper"]` from `item["position"]` (None: the start) to step `item["until"]`."""


@dataclass(frozen=True)
class Halving:
    """Decides which trials continue.

    Attributes:
      keep: at each rung, one in `keep` trials continues (η).
      rungs: number of rungs; the first is at the evaluation on dev nearest to
        steps / keep**rungs.
    """

    keep: int = 2
    rungs: int = 2

    def rung_steps(self, steps: int, every: int) -> list[int]:
        """Returns the steps of the rungs, which are multiples of `every`, and the last step."""
        wanted = [steps / self.keep**rung for rung in range(self.rungs, 0, -1)]
        return sorted({max(every, round(each / every) * every) for each in wanted} - {steps}) + [
            steps
        ]

    def run(
        self, ctx: Context, piece: Piece, hypers: Sequence[Hyper], steps: int, every: int
    ) -> list[Tree]:
        """Returns the result of the last piece of each trial, in the order of `hypers`.

        In `info`, `pruned_at` is the step at which a trial was pruned, and `continues` the number
        of the trial that ran the piece before.
        """
        results: list[Tree] = [{}] * len(hypers)
        alive = list(range(len(hypers)))
        for stop in self.rung_steps(steps, every):
            items = [
                {
                    "hyper": hypers[i],
                    "until": stop,
                    "position": results[i].pop("position", None) if results[i] else None,
                }
                for i in alive
            ]
            for i, result in zip(alive, ctx.map(piece, items), strict=True):
                if results[i]:
                    result["info"]["continues"] = results[i]["trial"]
                results[i] = result
            going = [i for i in alive if "position" in results[i]]
            going = sorted(going, key=lambda i: (_error(results[i]), i))[
                : -(-len(alive) // self.keep)
            ]
            for i in set(alive) - set(going):
                if results[i].pop("position", None) is not None:
                    results[i]["info"]["pruned_at"] = stop
            alive = sorted(going)
        return results


def _error(result: Tree) -> float:
    error = result["info"]["dev_error"]
    return float("inf") if error is None else error
