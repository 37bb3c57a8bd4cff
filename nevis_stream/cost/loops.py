"""Loops over constant ranges: how often they run, and their counters in each run of the body."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.extend.core import JaxprEqn, Literal

from nevis_stream.cost import constants
from nevis_stream.cost.constants import Value

Step = int | None
"""What a carried value grows by in each run of the body; None: that is not a constant."""

_FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "ne": "ne"}


def step_of(body: Any, n_consts: int, place: int) -> Step:
    """Returns the step of the carried value at `place` of a loop's body; 0 if it stays."""
    before, after = body.invars[n_consts + place], body.outvars[place]
    if after is before:
        return 0
    for eqn in body.eqns:
        if eqn.outvars[0] is after and eqn.primitive.name in ("add", "sub"):
            first, second = eqn.invars
            if first is before and (step := _literal(second)) is not None:
                return step if eqn.primitive.name == "add" else -step
            if second is before and eqn.primitive.name == "add":
                return _literal(first)
    return None


def _literal(atom: Any) -> Step:
    value = constants.of(atom.val) if isinstance(atom, Literal) else None
    return int(value[0]) if value is not None and value.size == 1 else None


def counters(carried: Sequence[Value], steps: Sequence[Step], trips: np.ndarray) -> list[Value]:
    """Returns the carried values in each run of the body.

    Args:
      carried: at the beginning of the loop.
      steps: of each.
      trips: int64[runs]: the runs of the body, for each run of the loop.
    """
    starts = np.repeat(np.cumsum(trips) - trips, trips)
    trip = np.arange(len(starts)) - starts
    return [_move(value, step, trip, trips) for value, step in zip(carried, steps, strict=True)]


def final(carried: Sequence[Value], steps: Sequence[Step], trips: np.ndarray) -> list[Value]:
    """Returns the carried values at the end of the loop; arguments as of `counters`."""
    once = np.ones(len(trips), int)
    return [_move(value, step, trips, once) for value, step in zip(carried, steps, strict=True)]


def _move(value: Value, step: Step, trip: np.ndarray, times: np.ndarray) -> Value:
    if value is None or step is None or (step and value.ndim > 1):
        return None
    repeated = constants.repeat(value, times)
    return repeated if not step else (repeated + step * trip).astype(value.dtype)


def rows(value: Value, runs: int, order: int) -> Value:
    """Returns the rows of arrays [runs, length, …], one for each run of a scan's body."""
    if value is None:
        return None
    whole = np.broadcast_to(value[:, ::order], (runs, *value.shape[1:]))
    return whole.reshape(-1, *value.shape[2:]) if whole.size <= constants.LARGEST else None


def stack(value: Value, runs: int, length: int, order: int) -> Value:
    """Returns arrays [runs, length, …] of the results of each run of a scan's body."""
    if value is None:
        return None
    whole = np.broadcast_to(value, (runs * length, *value.shape[1:]))
    return whole.reshape(runs, length, *value.shape[1:])[:, ::order]


def trips(eqn: JaxprEqn, operands: Sequence[Value]) -> np.ndarray:
    """Returns int64[runs or 1], how often the body of a `while` runs.

    Raises:
      ValueError: it is not a loop from one constant to another by constant steps.
    """
    condition, body = eqn.params["cond_jaxpr"].jaxpr, eqn.params["body_jaxpr"].jaxpr
    n_condition, n_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    values = [*operands[:n_condition], *operands[n_condition + n_body :]]  # as the condition's

    def side(atom: Any) -> tuple[Value, Step]:
        if isinstance(atom, Literal):
            return constants.operand(atom, {}), 0
        at = condition.invars.index(atom)
        return values[at], 0 if at < n_condition else step_of(body, n_body, at - n_condition)

    try:
        (test,) = condition.eqns
        (first, step), (second, other) = map(side, test.invars)
        name = test.primitive.name
        if step == 0:
            first, step, second, other, name = second, other, first, step, _FLIPPED[name]
        if not step or other != 0 or first is None or second is None or name not in _FLIPPED:
            raise ValueError
        return _between(first.astype(np.int64), second.astype(np.int64), step, name)
    except (ValueError, KeyError):
        raise ValueError("its number of trips is not a constant of the program") from None


def _between(start: np.ndarray, stop: np.ndarray, step: int, test: str) -> np.ndarray:
    if step < 0:
        start, stop, step, test = -start, -stop, -step, _FLIPPED[test]
    distance = stop - start + (test == "le")
    if test == "ne":
        if (distance < 0).any() or (distance % step).any():
            raise ValueError
    elif test in ("gt", "ge"):  # it moves away from the end
        if ((distance < 0) | ((test == "ge") & (distance <= 0))).any():
            raise ValueError
        return np.zeros_like(distance)
    return np.maximum(-(-distance // step), 0)
