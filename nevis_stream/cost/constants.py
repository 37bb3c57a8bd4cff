"""Whole numbers in a program that follow from its constants, such as a loop's counter and what is
computed from it: from them follows which branch runs, and how often a loop does.

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


def some(value: Value, where: np.ndarray) -> Value:
    """Returns the values of those runs in which `where` is true."""
    return value if value is None or 1 in (len(value), len(where)) else value[where]
