"""The meter: FLOPs by phase and trial, and how they are written. This loads no JAX."""

import functools
import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

from nevis_stream.errors import CostUnknown, LearnerFault, unknown
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


def refuse_while_tracing(what: str) -> None:
    """Raises CostUnknown if JAX is tracing: what is charged then is charged once, and not each time
    that the program runs, and after a kill perhaps again.

    Args:
      what: was done, for the message.
    """
    if "jax" in sys.modules and _get_trace_state() != _get_untraced_state():
        raise CostUnknown(
            f"{what} inside another compiled or differentiated function, where its calls cannot be"
            " counted. Use the plain function there, and ctx.jit or ctx.charge for the outermost"
            " one."
        )


def _get_trace_state() -> object:
    return _find_state_getter()()


@functools.cache
def _get_untraced_state() -> object:
    """The state in which nothing is traced."""
    import jax

    with jax.core.eval_context():
        return _get_trace_state()


@functools.cache
def _find_state_getter() -> Callable[[], object]:
    import jax
    from jax.extend import core

    return getattr(core, "get_opaque_trace_state", None) or jax.core.get_opaque_trace_state


def format_engineering(value: float) -> str:
    """Returns three significant digits with an exponent that is a multiple of three.

    >>> [format_engineering(flops) for flops in (12_345_678, -999_999, 84, float("nan"))]
    ['12.3e6', '−1.00e6', '84', '–']
    """
    if value < 0:
        return f"−{format_engineering(-value)}"
    if math.isnan(value):
        return "–"
    if abs(value) < 1000 and value == int(value):
        return str(int(value))
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    shift = int(exponent) % 3
    digits = f"{float(mantissa) * 10**shift:.{2 - shift}f}"
    power = int(exponent) - shift
    return f"{digits}e{power}" if power else digits


engineering = format_engineering  # its former name


def format_cost(value: float) -> str:
    """Returns FLOPs as `format_engineering`, and words for what nobody counted.

    >>> format_cost(12_345_678), format_cost(float("nan"))
    ('12.3e6', 'cost unknown')
    """
    return "cost unknown" if math.isnan(value) else format_engineering(value)


def format_ratio(value: float) -> str:
    """Returns a ratio of FLOPs with three significant digits; one that is very small or very large
    is written as FLOPs are.

    >>> [format_ratio(ratio) for ratio in (0.25, 78.71, 208_900.0, 1.92e-5, float("nan"))]
    ['0.25', '78.7', '209e3', '19.2e-6', '–']
    """
    return (
        f"{value:.3g}" if value == 0 or 0.001 <= abs(value) < 999.5 else format_engineering(value)
    )


def format_times(value: float) -> str:
    """Returns how many times the training FLOPs of another method one used, in words; the text
    continues with " training FLOPs of" and the other method.

    Args:
      value: the first method's FLOPs divided by the second's, 0 or more.

    >>> [format_times(ratio) for ratio in (2.5, 1 / 52_083, 208_900.0, 0.0, 1.001)]
    ['2.5 times the', '1/52,100 of the', '209,000 times the', 'no', 'the same']
    """
    if value == 0:
        return "no"
    if abs(value - 1) < 0.005:
        return "the same"
    factor = max(value, 1 / value)
    text = f"{float(f'{factor:.3g}'):,.0f}" if 999.5 <= factor < 1e9 else format_ratio(factor)
    return f"{text} times the" if value > 1 else f"1/{text} of the"
