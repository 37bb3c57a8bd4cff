"""The meter: FLOPs by phase and trial."""

from collections.abc import Mapping

from nevis_stream.cost.tracing import refuse_while_tracing
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
          ValueError: an unknown phase, or FLOPs that are negative or not a whole number.
          CostUnknown: JAX is tracing the running code.
        """
        refuse_while_tracing("FLOPs were charged")
        if phase not in PHASES:
            raise ValueError(f"unknown phase {phase!r}; valid: {', '.join(PHASES)}")
        if flops != int(flops) or flops < 0:
            raise ValueError(f"FLOPs must be a whole number from 0 upwards, not {flops!r}")
        by_trial = self._counts.setdefault(phase, {})
        key = NO_TRIAL if trial is None else str(trial)
        by_trial[key] = by_trial.get(key, 0) + int(flops)

    def add(self, counts: Mapping[str, Mapping[str, int]]) -> None:
        """Adds another meter's counts."""
        for phase, by_trial in counts.items():
            for trial, flops in by_trial.items():
                self.charge(flops, phase, None if trial == NO_TRIAL else int(trial))

    def counts(self) -> Counts:
        """Returns a copy of the counts, phases in their fixed order."""
        return {phase: dict(self._counts[phase]) for phase in PHASES if phase in self._counts}


def total(counts: Mapping[str, Mapping[str, int]], phase: str | None = None) -> int:
    """Returns the sum over all trials of one phase, or of every phase."""
    return sum(sum(by_trial.values()) for name, by_trial in counts.items() if phase in (None, name))
