"""The meter: FLOPs by phase and trial."""

from collections.abc import Mapping
from typing import Any

from nevis_stream.cost.tracing import refuse_while_tracing
from nevis_stream.errors import LearnerFault, unknown
from nevis_stream.vocabulary import PHASES

NO_TRIAL = "-"

Counts = dict[str, dict[str, int]]
"""FLOPs by phase, then by trial: its number as text, or "-" outside of a trial."""


class Meter:
    """Adds up FLOPs by phase and trial, as exact integers."""

    def __init__(self):
        self._counts: Counts = {}

    def charge(self, flops: int, phase: str, trial: int | None) -> None:
        """Adds `flops` to a phase of a trial (None: outside of a trial).

        Raises:
          LearnerFault: an unknown phase, or FLOPs that are not a whole number from 0 upwards.
          CostUnknown: JAX is tracing the running code.
        """
        refuse_while_tracing("FLOPs were charged")
        if phase not in PHASES:
            raise LearnerFault(unknown("phase", phase, PHASES))
        whole = _whole(flops)
        by_trial = self._counts.setdefault(phase, {})
        key = NO_TRIAL if trial is None else str(trial)
        by_trial[key] = by_trial.get(key, 0) + whole

    def add(self, counts: Mapping[str, Mapping[str, int]]) -> None:
        """Adds another meter's counts."""
        for phase, by_trial in counts.items():
            for trial, flops in by_trial.items():
                self.charge(flops, phase, None if trial == NO_TRIAL else int(trial))

    def counts(self) -> Counts:
        """Returns a copy of the counts, phases in their fixed order."""
        return {phase: dict(self._counts[phase]) for phase in PHASES if phase in self._counts}


def _whole(flops: Any) -> int:
    try:
        whole = int(flops)
        if whole == flops and whole >= 0:
            return whole
    except (TypeError, ValueError, OverflowError):  # a text, NaN, infinity
        pass
    raise LearnerFault(
        f"ctx.charge({flops!r}): FLOPs are a whole number from 0 upwards. If the cost is not known,"
        " charge nothing: it is then shown as unknown."
    )


def total(counts: Mapping[str, Mapping[str, int]], phase: str | None = None) -> int:
    """Returns the sum over all trials of one phase, or of every phase."""
    return sum(sum(by_trial.values()) for name, by_trial in counts.items() if phase in (None, name))
