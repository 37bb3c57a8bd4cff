"""Whole numbers in a program that follow from its constants, such as a loop's counter and what is
computed from it: from them follows which branch runs, and how often a loop over a constant range
does.

A value belongs to one program or to each of several runs of it: an array [runs, …], or [1, …] if
it is the same in all of them. None is a value that depends on data.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.extend.core import JaxprEqn, Literal

Value = np.ndarray | None

LARGEST = 2**20
"""Elements of the largest array that is followed."""


def _quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.sign(a) * np.sign(b) * (abs(a) // abs(b))  # towards zero, as in XLA


def _choose(which: np.ndarray, *cases: np.ndarray) -> np.ndarray:
    return np.choose(which.astype(int), cases)


_ELEMENTWISE = {
    "abs": np.abs,
    "add": np.add,
    "and": np.bitwise_and,
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
    "convert_element_type": np.asarray,
    "copy": np.asarray,
    "div": _quotient,
    "eq": np.equal,
    "ge": np.greater_equal,
    "gt": np.greater,
    "le": np.less_equal,
    "lt": np.less,
    "max": np.maximum,
    "min": np.minimum,
    "mul": np.multiply,
    "ne": np.not_equal,
    "neg": np.negative,
    "not": np.invert,
    "or": np.bitwise_or,
    "rem": np.fmod,
    "select_n": _choose,
    "sign": np.sign,
    "square": np.square,
    "stop_gradient": np.asarray,
    "sub": np.subtract,
    "xor": np.bitwise_xor,
}

_REDUCTIONS = {
    "reduce_and": np.all,
    "reduce_max": np.max,
    "reduce_min": np.min,
    "reduce_or": np.any,
    "reduce_sum": np.sum,
}


def of(value: Any) -> Value:
    """Returns a constant of a program, or None if it is not of whole numbers, or is too large."""
    array = np.asarray(value) if isinstance(value, int | np.generic | np.ndarray) else value
    if not _whole(getattr(array, "dtype", None)) or array.size > LARGEST:
        return None
    return np.asarray(array)[None]


def _whole(dtype: object) -> bool:
    return getattr(dtype, "kind", "f") in "biu"


def operand(atom: object, known: dict) -> Value:
    """Returns the value of an equation's operand."""
    if isinstance(atom, Literal):
        value = of(atom.val)
        return None if value is None else value.astype(atom.aval.dtype)
    return known.get(atom)


def result(eqn: JaxprEqn, operands: Sequence[Value]) -> Value:
    """Returns the result of an equation, or None if it is not known."""
    (out,), name = eqn.outvars, eqn.primitive.name
    if any(value is None for value in operands) or not _whole(getattr(out.aval, "dtype", None)):
        return None
    if out.aval.size * max((len(value) for value in operands), default=1) > LARGEST:
        return None
    value = _compute(name, eqn.params, out.aval.shape, operands)
    return None if value is None else value.astype(out.aval.dtype)


def _compute(name: str, params: dict, shape: tuple[int, ...], operands: Sequence) -> Value:
    if name in ("div", "rem") and not operands[1].all():
        return None
    if name in _ELEMENTWISE:
        rank = len(shape) + 1  # constants without axes meet arrays
        aligned = (x.reshape(len(x), *(1,) * (rank - x.ndim), *x.shape[1:]) for x in operands)
        with np.errstate(over="ignore"):
            return _ELEMENTWISE[name](*aligned)
    if name in _REDUCTIONS:
        return _REDUCTIONS[name](operands[0], axis=tuple(axis + 1 for axis in params["axes"]))
    if name == "iota":
        side = shape[params["dimension"]]
        sides = [1 if axis != params["dimension"] else side for axis in range(len(shape))]
        return np.broadcast_to(np.arange(side).reshape(sides), shape)[None]
    if name == "squeeze" or (name == "reshape" and params["dimensions"] is None):
        return operands[0].reshape(len(operands[0]), *shape)
    if name == "broadcast_in_dim" and len(operands) == 1:
        sides = [1] * len(shape)
        for axis, place in enumerate(params["broadcast_dimensions"]):
            sides[place] = operands[0].shape[axis + 1]
        x = operands[0].reshape(len(operands[0]), *sides)
        return np.broadcast_to(x, (len(x), *shape))
    return None


def repeat(value: Value, times: np.ndarray | int) -> Value:
    """Returns a value of each of several runs for the `times` runs that each of them makes."""
    return value if value is None or len(value) == 1 else np.repeat(value, times, axis=0)


def select(value: Value, where: np.ndarray) -> Value:
    """Returns the values of those runs in which `where` is true."""
    return value if value is None or 1 in (len(value), len(where)) else value[where]


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
    value = of(atom.val) if isinstance(atom, Literal) else None
    return int(value[0]) if value is not None and value.size == 1 else None


def counters(carried: Sequence[Value], steps: Sequence[Step], trips: np.ndarray) -> list[Value]:
    """Returns the carried values in each run of the body.

    Args:
      carried: at the beginning of the loop.
      steps: of each.
      trips: int64[runs]: how often the body runs, for each run of the loop.
    """
    starts = np.repeat(np.cumsum(trips) - trips, trips)
    trip = np.arange(len(starts)) - starts
    return [_move(value, step, trip, trips) for value, step in zip(carried, steps, strict=True)]


def final_values(carried: Sequence[Value], steps: Sequence[Step], trips: np.ndarray) -> list[Value]:
    """Returns the carried values at the end of the loop; arguments as of `counters`."""
    once = np.ones(len(trips), int)
    return [_move(value, step, trips, once) for value, step in zip(carried, steps, strict=True)]


def _move(value: Value, step: Step, trip: np.ndarray, times: np.ndarray) -> Value:
    if value is None or step is None or (step and value.ndim > 1):
        return None
    repeated = repeat(value, times)
    return repeated if not step else (repeated + step * trip).astype(value.dtype)


def scan_rows(value: Value, runs: int, order: int) -> Value:
    """Returns the rows of arrays [runs, length, …], one for each run of a scan's body.

    Args:
      value: the arrays that the scan goes through.
      runs: how often the scan runs.
      order: 1, or -1 if it goes from the last row to the first.
    """
    if value is None:
        return None
    whole = np.broadcast_to(value[:, ::order], (runs, *value.shape[1:]))
    return whole.reshape(-1, *value.shape[2:]) if whole.size <= LARGEST else None


def stack(value: Value, runs: int, length: int, order: int) -> Value:
    """Returns arrays [runs, length, …] of the results of each run of a scan's body; arguments as of
    `scan_rows`.
    """
    if value is None:
        return None
    whole = np.broadcast_to(value, (runs * length, *value.shape[1:]))
    return whole.reshape(runs, length, *value.shape[1:])[:, ::order]


def count_trips(eqn: JaxprEqn, operands: Sequence[Value]) -> np.ndarray:
    """Returns int64[runs or 1], how often the body of a `while` runs.

    Raises:
      ValueError: it is not a loop from one constant to another by constant steps.
    """
    condition, body = eqn.params["cond_jaxpr"].jaxpr, eqn.params["body_jaxpr"].jaxpr
    n_condition, n_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    values = [*operands[:n_condition], *operands[n_condition + n_body :]]  # as the condition's

    def side(atom: Any) -> tuple[Value, Step]:
        if isinstance(atom, Literal):
            return operand(atom, {}), 0
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
