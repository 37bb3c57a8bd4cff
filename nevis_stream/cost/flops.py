"""FLOPs of one call of a JAX program: a function of its jaxpr, the same on every device.

The count is a sum over the program's equations, except dead ones: what XLA's cost analysis gives
for the equation lowered alone for the CPU (for products and reductions, a formula that gives the
same), times the number of times that it runs. That is XLA's count of the whole program, corrected
where XLA's cannot be used: XLA counts the body of a loop once, counts -1 for calls of a library
(LAPACK, a callback), and adds in float32. What constant folding saves is not deducted.

* A multiply-add counts 2; other arithmetic, including comparisons and integers, counts 1 per
  element; exp, log, tanh and the like (XLA's "transcendentals") count 0, as does moving data. The
  padding of a convolution is not counted.
* `scan` (and `fori_loop`, `map`) counts its length times its body; so does `while`, if it is
  recognised as a loop over a constant range, up or down, with or without its end. `cond` counts the
  branches that run where its predicate follows from constants, such as a loop's counter; else its
  most expensive branch, as in XLA.
* Rematerialised equations count each time that they run. Shardings change nothing: the count is
  that of the global program.
* Sorting, cumulative sums, Fourier transforms, complex numbers, dense linear algebra and samplers
  that reject follow formulas (nevis_stream/cost/equations.py).
* Equations that hide their work (callbacks, foreign calls, Pallas kernels, `shard_map`, loops of
  unknown length) and those in no table here raise `CostUnknown`.

An equation's count is rounded like XLA's float32: exact below 2**24, within a factor of 6e-8 above.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal
from jax.interpreters import partial_eval

from nevis_stream.cost.equations import (
    LARGEST,
    POISSON_DRAW,
    Value,
    count_once,
    evaluate_equation,
    find_value,
    is_poisson,
    read_constant,
)
from nevis_stream.errors import CostUnknown

# Equations that run a program once, and the parameter that holds it.
_CALLS = {
    "call": "call_jaxpr",
    "checkpoint": "jaxpr",
    "closed_call": "call_jaxpr",
    "composite": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vmap_call": "call",
    "jit": "jaxpr",
    "linear_call": "callee",
    "pjit": "jaxpr",
    "remat2": "jaxpr",
    "remat_opt": "fwd_jaxpr",
}


def count(fn: Callable, *args, **kwargs) -> int:
    """Returns the FLOPs of one call `fn(*args, **kwargs)`, without running it.

    Args:
      fn: function of arrays, or one already jitted, with its static and donated arguments.
      *args: arrays or `jax.ShapeDtypeStruct`s; only their shapes and dtypes matter.
      **kwargs: as `args`.

    Raises:
      CostUnknown: part of the program cannot be counted; the message names it.

    >>> count(jax.numpy.dot, jax.numpy.ones((2, 3)), jax.numpy.ones((3, 5)))
    60
    """
    jitted = fn if isinstance(fn, jax.stages.Wrapped) else jax.jit(fn)
    return count_jaxpr(jitted.trace(*args, **kwargs).jaxpr)


def count_jaxpr(closed_jaxpr: ClosedJaxpr, where: str | None = None) -> int:
    """Returns the FLOPs of one run of a traced program, such as `jax.jit(fn).trace(*args).jaxpr`.

    Args:
      closed_jaxpr: the program.
      where: the program's place for messages; None: that of the traced function.

    Raises:
      CostUnknown: part of the program cannot be counted; the message names it.
    """
    walk = _Walk(where or closed_jaxpr.jaxpr.debug_info.func_src_info)
    nothing = [None] * len(closed_jaxpr.jaxpr.invars)
    return walk.count_program(closed_jaxpr, 1, nothing if walk.chooses(closed_jaxpr) else None)[0]


def place_of(function: Callable) -> str | None:
    """Returns a function's name and the file and line of its code, or None if it has none."""
    plain = inspect.unwrap(getattr(function, "func", function))  # of a functools.partial
    code = getattr(plain, "__code__", None)
    return code and f"{plain.__name__} at {code.co_filename}:{code.co_firstlineno}"


class _Walk:
    """Goes through a program and those inside it.

    A program is counted for all of its runs at once, because which branch runs, and how often a
    loop does, may differ between them. Values that follow from constants are therefore followed
    (nevis_stream/cost/equations.py), in programs with a branch or a loop of which this matters.
    """

    def __init__(self, where: str):
        self.where = where
        self._choices: dict[Any, bool] = {}

    def count_program(
        self, jaxpr: Any, runs: int = 1, values: Sequence[Value] | None = None
    ) -> tuple[int, list[Value]]:
        """Returns the FLOPs of all runs of a program, and its results.

        Args:
          jaxpr: the program.
          runs: how often it runs.
          values: its arguments, as far as they are known; None: none is followed.
        """
        if not runs:
            return 0, [None] * len(getattr(jaxpr, "jaxpr", jaxpr).outvars)
        known: dict[Any, Value] = {}
        plain = getattr(jaxpr, "jaxpr", jaxpr)
        live, _ = partial_eval.dce_jaxpr(plain, [True] * len(plain.outvars), instantiate=True)
        follow = values is not None
        if values is not None:
            known = dict(zip(live.invars, values, strict=True))
            constants = zip(live.constvars, getattr(jaxpr, "consts", ()), strict=False)
            known |= {var: read_constant(value) for var, value in constants}
        total = 0
        for eqn in live.eqns:
            operands = [find_value(atom, known) if follow else None for atom in eqn.invars]
            flops, results = self._count_equation(eqn, runs, operands, follow)
            total += flops
            known.update(zip(eqn.outvars, results, strict=True))
        return total, [find_value(atom, known) for atom in live.outvars]

    def chooses(self, jaxpr: Any) -> bool:
        """Whether a program contains a branch, or a loop that is not a scan."""
        jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
        if jaxpr not in self._choices:
            self._choices[jaxpr] = any(
                eqn.primitive.name in ("cond", "while") or any(map(self.chooses, _inside(eqn)))
                for eqn in jaxpr.eqns
            )
        return self._choices[jaxpr]

    def _count_equation(
        self, eqn: JaxprEqn, runs: int, operands: list[Value], follow: bool
    ) -> tuple[int, list[Value]]:
        """Returns the FLOPs of an equation in all runs, and its results."""
        name, params = eqn.primitive.name, eqn.params
        unknown: list[Value] = [None] * len(eqn.outvars)
        try:
            if is_poisson(eqn):
                return runs * POISSON_DRAW * math.prod(eqn.outvars[0].aval.shape), unknown
            if name in _CALLS:
                inner = params[_CALLS[name]]
                fits = len(getattr(inner, "jaxpr", inner).invars) == len(operands)
                flops, results = self.count_program(
                    inner, runs, operands if follow and fits else None
                )
                return flops, results if len(results) == len(unknown) else unknown
            if name == "scan":
                return self._count_scan(params, runs, operands, follow)
            if name == "while":
                return self._count_while(eqn, runs, operands), unknown
            if name == "cond":
                return self._count_cond(params, runs, operands, follow), unknown
            if name == "custom_linear_solve":
                return self.count_program(params["jaxprs"].solve, runs)[0], unknown
            results = unknown
            if follow and len(unknown) == 1:
                results = [evaluate_equation(eqn, operands)]
            return runs * count_once(eqn), results
        except CostUnknown:
            raise
        except Exception as error:
            reason = str(error).partition("\n")[0]
            raise CostUnknown(
                f"{self.where}: the FLOPs of `{name}` cannot be counted ({reason}). Give loops a"
                " fixed length (`lax.scan`, `lax.fori_loop`), or run this part with plain"
                " `jax.jit` and charge its cost with `ctx.charge`."
            ) from error

    def _count_scan(
        self, params: Mapping[str, Any], runs: int, operands: list[Value], follow: bool
    ) -> tuple[int, list[Value]]:
        length, body = params["length"], params["jaxpr"]
        n_consts, n_carry = params["num_consts"], params["num_carry"]
        n_results = len(body.jaxpr.outvars)
        if not (follow and self.chooses(body)) or runs * length > LARGEST:
            total = self.count_program(body, runs * length, self._unknown(body))[0]
            return total, [None] * n_results
        order = -1 if params["reverse"] else 1
        carried = operands[n_consts : n_consts + n_carry]
        steps = [_step_of(body.jaxpr, n_consts, place) for place in range(n_carry)]
        total, results = self.count_program(
            body,
            runs * length,
            [_repeat(value, length) for value in operands[:n_consts]]
            + _carried_values(carried, steps, np.full(runs, length))
            + [_scan_rows(value, runs, order) for value in operands[n_consts + n_carry :]],
        )
        after = _final_values(carried, steps, np.full(runs, length))
        stacked = [_stack(value, runs, length, order) for value in results[n_carry:]]
        return total, after + stacked

    def _count_while(self, eqn: JaxprEqn, runs: int, operands: list[Value]) -> int:
        body, n_condition = eqn.params["body_jaxpr"], eqn.params["cond_nconsts"]
        n_body = eqn.params["body_nconsts"]
        trips = _count_trips(eqn, operands)
        trips = np.broadcast_to(trips, runs) if runs <= LARGEST or len(trips) > 1 else trips
        total = int(trips.sum()) * (runs // len(trips))
        values = self._unknown(body)
        if self.chooses(body) and len(trips) == runs and total <= LARGEST:
            carried = operands[n_condition + n_body :]
            steps = [_step_of(body.jaxpr, n_body, place) for place in range(len(carried))]
            fixed = operands[n_condition : n_condition + n_body]
            values = [_repeat(value, trips) for value in fixed]
            values += _carried_values(carried, steps, trips)
        tests = self.count_program(eqn.params["cond_jaxpr"], total + runs)[0]
        return tests + self.count_program(body, total, values)[0]

    def _count_cond(
        self, params: Mapping[str, Any], runs: int, operands: list[Value], follow: bool
    ) -> int:
        branches, platforms = params["branches"], params.get("branches_platforms")
        if platforms is not None:  # `lax.platform_dependent`: the CPU's, else the default
            pairs = zip(branches, platforms, strict=True)
            branches = [b for b, p in pairs if p is None or "cpu" in p][:1]
        which, arguments = operands[0], operands[1:]
        if platforms is not None or which is None:
            values = arguments if follow else None
            return max(self.count_program(branch, runs, values)[0] for branch in branches)
        which = np.clip(which, 0, len(branches) - 1)
        total = 0
        for number, branch in enumerate(branches):
            taken = which == number
            times = int(taken.sum()) * (runs // len(which))
            total += self.count_program(
                branch, times, [_select(value, taken) for value in arguments]
            )[0]
        return total

    def _unknown(self, jaxpr: Any) -> list[Value] | None:
        """Arguments of which nothing is known, of a program whose own constants may matter."""
        return [None] * len(jaxpr.jaxpr.invars) if self.chooses(jaxpr) else None


def _inside(eqn: JaxprEqn) -> Iterator[Any]:
    """Yields the programs that an equation contains."""
    for value in eqn.params.values():
        for each in value if isinstance(value, list | tuple) else (value,):
            if hasattr(getattr(each, "jaxpr", each), "eqns"):
                yield each


def _repeat(value: Value, times: np.ndarray | int) -> Value:
    """Returns, of values [runs, …], each `times` times: for the runs that a run makes of a body."""
    return value if value is None or len(value) == 1 else np.repeat(value, times, axis=0)


def _select(value: Value, where: np.ndarray) -> Value:
    """Returns the values of those runs in which `where` is true."""
    return value if value is None or 1 in (len(value), len(where)) else value[where]


Step = int | None
"""What a carried value grows by in each run of the body; None: that is not a constant."""

_FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "ne": "ne"}


def _step_of(body: Any, n_consts: int, place: int) -> Step:
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
    value = read_constant(atom.val) if isinstance(atom, Literal) else None
    return int(value[0]) if value is not None and value.size == 1 else None


def _carried_values(
    carried: Sequence[Value], steps: Sequence[Step], trips: np.ndarray
) -> list[Value]:
    """Returns the carried values in each run of the body.

    Args:
      carried: at the beginning of the loop.
      steps: of each.
      trips: int64[runs]: how often the body runs, for each run of the loop.
    """
    starts = np.repeat(np.cumsum(trips) - trips, trips)
    trip = np.arange(len(starts)) - starts
    return [_advance(value, step, trip, trips) for value, step in zip(carried, steps, strict=True)]


def _final_values(
    carried: Sequence[Value], steps: Sequence[Step], trips: np.ndarray
) -> list[Value]:
    """Returns the carried values at the end of the loop; arguments as of `_carried_values`."""
    once = np.ones(len(trips), int)
    return [_advance(value, step, trips, once) for value, step in zip(carried, steps, strict=True)]


def _advance(value: Value, step: Step, trip: np.ndarray, times: np.ndarray) -> Value:
    if value is None or step is None or (step and value.ndim > 1):
        return None
    repeated = _repeat(value, times)
    return repeated if not step else (repeated + step * trip).astype(value.dtype)


def _scan_rows(value: Value, runs: int, order: int) -> Value:
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


def _stack(value: Value, runs: int, length: int, order: int) -> Value:
    """Returns arrays [runs, length, …] of the results of each run of a scan's body; arguments as of
    `_scan_rows`.
    """
    if value is None:
        return None
    whole = np.broadcast_to(value, (runs * length, *value.shape[1:]))
    return whole.reshape(runs, length, *value.shape[1:])[:, ::order]


def _count_trips(eqn: JaxprEqn, operands: Sequence[Value]) -> np.ndarray:
    """Returns int64[runs or 1], how often the body of a `while` runs.

    Raises:
      ValueError: it is not a loop from one constant to another by constant steps.
    """
    condition, body = eqn.params["cond_jaxpr"].jaxpr, eqn.params["body_jaxpr"].jaxpr
    n_condition, n_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    values = [*operands[:n_condition], *operands[n_condition + n_body :]]  # as the condition's

    def side(atom: Any) -> tuple[Value, Step]:
        if isinstance(atom, Literal):
            return find_value(atom, {}), 0
        at = condition.invars.index(atom)
        return values[at], 0 if at < n_condition else _step_of(body, n_body, at - n_condition)

    try:
        (test,) = condition.eqns
        (first, step), (second, other) = map(side, test.invars)
        name = test.primitive.name
        if step == 0:
            first, step, second, other, name = second, other, first, step, _FLIPPED[name]
        if not step or other != 0 or first is None or second is None or name not in _FLIPPED:
            raise ValueError
        return _count_steps(first.astype(np.int64), second.astype(np.int64), step, name)
    except (ValueError, KeyError):
        raise ValueError("its number of trips is not a constant of the program") from None


def _count_steps(start: np.ndarray, stop: np.ndarray, step: int, test: str) -> np.ndarray:
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
