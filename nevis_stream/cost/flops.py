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
  recognised as a loop over a constant range, up or down, to or up to its end. `cond` counts the
  branches that run where its predicate follows from constants, such as a loop's counter; else its
  most expensive branch, as in XLA.
* Rematerialised equations count each time that they run. Shardings change nothing: the count is
  that of the global program.
* Sorting, cumulative sums, Fourier transforms, complex numbers, dense linear algebra and samplers
  that reject follow formulas (nevis_stream/cost/formulas.py).
* Equations that hide their work (callbacks, foreign calls, Pallas kernels, `shard_map`, loops of
  unknown length) and those in no table here raise `CostUnknown`.

An equation's count is rounded like XLA's float32: exact below 2**24, within a factor of 6e-8 above.
"""

import functools
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, JaxprEqn
from jax.interpreters import partial_eval
from jaxlib import xla_client

from nevis_stream.cost import constants
from nevis_stream.cost.constants import LARGEST, Value
from nevis_stream.cost.formulas import COMPLEX, FORMULAS, OTHER_COMPLEX, POISSON_DRAW
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

# Moves, names, places or prints data.
_FREE = frozenset(
    str.split(
        "broadcast_in_dim concatenate copy debug_print device_put dynamic_slice iota"
        " dynamic_update_slice empty empty2 layout_constraint lu_pivots_to_permutation name pad"
        " optimization_barrier platform_index random_clone random_unwrap random_wrap relayout"
        " reshape reshard rev sharding_constraint slice split squeeze stack stop_gradient tile"
        " transpose unstack with_memory_space_constraint"
    )
)

# The same for every element, so XLA's cost of a single one is used: quick and exact.
_ELEMENTWISE = frozenset(
    str.split(
        "abs add add_any and cbrt ceil clamp convert_element_type cos div eq erf erf_inv erfc exp"
        " exp2 expm1 floor ge gt integer_pow is_finite le log log1p logistic lt max min mul ne neg"
        " not or pow rem round rsqrt select_n shift_left shift_right_arithmetic sign sin sqrt sub"
        " shift_right_logical square tan tanh xor"
    )
)


# What XLA counts for these was compared with their definitions (tests/cost). Whatever is in no
# table is refused: XLA's count of an unknown equation may be far from what it computes.
_BY_XLA = frozenset(
    str.split(
        "acos acosh asin asinh atan atan2 atanh bessel_i0e bessel_i1e bitcast_convert_type clz conj"
        " complex conv_general_dilated cosh digamma eq_to gather imag le_to lgamma lt_to nextafter"
        " polygamma population_count random_bits random_fold_in random_seed random_split real"
        " reduce reduce_and reduce_or reduce_precision reduce_prod reduce_window reduce_window_max"
        " reduce_window_min reduce_window_sum reduce_xor rng_bit_generator rng_uniform scatter"
        " scatter-add scatter-max scatter-min scatter-mul scatter-sub select_and_gather_add"
        " select_and_scatter select_and_scatter_add sinh threefry2x32 zeta"
    )
)


def _dot_general_flops(eqn: JaxprEqn) -> int:
    (contracted, _), _ = eqn.params["dimension_numbers"]
    width = math.prod(eqn.invars[0].aval.shape[axis] for axis in contracted)
    return 2 * math.prod(eqn.outvars[0].aval.shape) * width


def _reduction_flops(eqn: JaxprEqn) -> int:
    before, after = (math.prod(each[0].aval.shape) for each in (eqn.invars, eqn.outvars))
    return max(0, before - after)


# XLA's counts for real numbers without lowering the equation, which takes 15 ms for each shape.
_QUICK = {
    "dot_general": _dot_general_flops,
    "reduce_max": _reduction_flops,
    "reduce_min": _reduction_flops,
    "reduce_sum": _reduction_flops,
}

_OPAQUE = ("stablehlo.while", "custom_call", "chlo.top_k")  # where XLA's count is wrong or -1


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
    return walk.program(closed_jaxpr, 1, nothing if walk.chooses(closed_jaxpr) else None)[0]


def place_of(function: Callable) -> str | None:
    """Returns a function's name and the file and line of its code, or None if it has none."""
    plain = inspect.unwrap(getattr(function, "func", function))  # of a functools.partial
    code = getattr(plain, "__code__", None)
    return code and f"{plain.__name__} at {code.co_filename}:{code.co_firstlineno}"


class _Walk:
    """Goes through a program and those inside it.

    A program is counted for all of its runs at once, because which branch runs, and how often a
    loop does, may differ between them. Values that follow from constants are therefore followed
    (nevis_stream/cost/constants.py), in programs with a branch or a loop of which this matters.
    """

    def __init__(self, where: str):
        self.where = where
        self._choices: dict[Any, bool] = {}

    def program(
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
            constants_ = zip(live.constvars, getattr(jaxpr, "consts", ()), strict=False)
            known |= {var: constants.of(value) for var, value in constants_}
        total = 0
        for eqn in live.eqns:
            operands = [constants.operand(atom, known) if follow else None for atom in eqn.invars]
            flops, results = self._equation(eqn, runs, operands, follow)
            total += flops
            known.update(zip(eqn.outvars, results, strict=True))
        return total, [constants.operand(atom, known) for atom in live.outvars]

    def chooses(self, jaxpr: Any) -> bool:
        """Whether a program contains a branch, or a loop that is not a scan."""
        jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
        if jaxpr not in self._choices:
            self._choices[jaxpr] = any(
                eqn.primitive.name in ("cond", "while") or any(map(self.chooses, _inside(eqn)))
                for eqn in jaxpr.eqns
            )
        return self._choices[jaxpr]

    def _equation(
        self, eqn: JaxprEqn, runs: int, operands: list[Value], follow: bool
    ) -> tuple[int, list[Value]]:
        """Returns the FLOPs of an equation in all runs, and its results."""
        name, params = eqn.primitive.name, eqn.params
        unknown: list[Value] = [None] * len(eqn.outvars)
        try:
            if _is_poisson(eqn):
                return runs * POISSON_DRAW * math.prod(eqn.outvars[0].aval.shape), unknown
            if name in _CALLS:
                inner = params[_CALLS[name]]
                fits = len(getattr(inner, "jaxpr", inner).invars) == len(operands)
                flops, results = self.program(inner, runs, operands if follow and fits else None)
                return flops, results if len(results) == len(unknown) else unknown
            if name == "scan":
                return self._scan(params, runs, operands, follow)
            if name == "while":
                return self._while(eqn, runs, operands), unknown
            if name == "cond":
                return self._cond(params, runs, operands, follow), unknown
            if name == "custom_linear_solve":
                return self.program(params["jaxprs"].solve, runs)[0], unknown
            if follow and len(unknown) == 1:
                unknown = [constants.result(eqn, operands)]
            return runs * _single(eqn), unknown
        except CostUnknown:
            raise
        except Exception as error:
            reason = str(error).partition("\n")[0]
            raise CostUnknown(
                f"{self.where}: the FLOPs of `{name}` cannot be counted ({reason}). Give loops a"
                " fixed length (`lax.scan`, `lax.fori_loop`), or run this part with plain"
                " `jax.jit` and charge its cost with `ctx.charge`."
            ) from error

    def _scan(
        self, params: Mapping[str, Any], runs: int, operands: list[Value], follow: bool
    ) -> tuple[int, list[Value]]:
        length, body = params["length"], params["jaxpr"]
        n_consts, n_carry = params["num_consts"], params["num_carry"]
        n_results = len(body.jaxpr.outvars)
        if not (follow and self.chooses(body)) or runs * length > LARGEST:
            total = self.program(body, runs * length, self._unknown(body))[0]
            return total, [None] * n_results
        order = -1 if params["reverse"] else 1
        carried = operands[n_consts : n_consts + n_carry]
        steps = [constants.step_of(body.jaxpr, n_consts, place) for place in range(n_carry)]
        total, results = self.program(
            body,
            runs * length,
            [constants.repeat(value, length) for value in operands[:n_consts]]
            + constants.counters(carried, steps, np.full(runs, length))
            + [constants.scan_rows(value, runs, order) for value in operands[n_consts + n_carry :]],
        )
        after = constants.final_values(carried, steps, np.full(runs, length))
        stacked = [constants.stack(value, runs, length, order) for value in results[n_carry:]]
        return total, after + stacked

    def _while(self, eqn: JaxprEqn, runs: int, operands: list[Value]) -> int:
        body, n_condition = eqn.params["body_jaxpr"], eqn.params["cond_nconsts"]
        n_body = eqn.params["body_nconsts"]
        trips = constants.count_trips(eqn, operands)
        trips = np.broadcast_to(trips, runs) if runs <= LARGEST or len(trips) > 1 else trips
        total = int(trips.sum()) * (runs // len(trips))
        values = self._unknown(body)
        if self.chooses(body) and len(trips) == runs and total <= LARGEST:
            carried = operands[n_condition + n_body :]
            steps = [constants.step_of(body.jaxpr, n_body, place) for place in range(len(carried))]
            fixed = operands[n_condition : n_condition + n_body]
            values = [constants.repeat(value, trips) for value in fixed]
            values += constants.counters(carried, steps, trips)
        tests = self.program(eqn.params["cond_jaxpr"], total + runs)[0]
        return tests + self.program(body, total, values)[0]

    def _cond(
        self, params: Mapping[str, Any], runs: int, operands: list[Value], follow: bool
    ) -> int:
        branches, platforms = params["branches"], params.get("branches_platforms")
        if platforms is not None:  # `lax.platform_dependent`: the CPU's, else the default
            pairs = zip(branches, platforms, strict=True)
            branches = [b for b, p in pairs if p is None or "cpu" in p][:1]
        which, arguments = operands[0], operands[1:]
        if platforms is not None or which is None:
            values = arguments if follow else None
            return max(self.program(branch, runs, values)[0] for branch in branches)
        which = np.clip(which, 0, len(branches) - 1)
        total = 0
        for number, branch in enumerate(branches):
            taken = which == number
            times = int(taken.sum()) * (runs // len(which))
            total += self.program(
                branch, times, [constants.select(value, taken) for value in arguments]
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


def _is_poisson(eqn: JaxprEqn) -> bool:
    return eqn.params.get("name") == "_poisson" and any(
        inner.params.get("name") == "_poisson_knuth" for inner in eqn.params["jaxpr"].jaxpr.eqns
    )


def _single(eqn: JaxprEqn) -> int:
    """FLOPs of an equation that contains no program, run once."""
    name = eqn.primitive.name
    if name in _FREE:
        return 0
    if name == "shard_map":
        raise ValueError("it is the program of one device: give `jax.jit` shardings instead")
    formula = FORMULAS.get(name)
    imaginary = any(map(_is_complex, (*eqn.invars, *eqn.outvars)))
    if formula and not (imaginary and name in COMPLEX):
        return formula(eqn)
    if imaginary:
        return _complex(eqn)
    if name not in _BY_XLA | _ELEMENTWISE | _QUICK.keys():
        raise ValueError("what it computes is not known here")
    return _as_xla_counts(eqn)


def _is_complex(atom: Any) -> bool:
    dtype = getattr(atom.aval, "dtype", None)
    return getattr(dtype, "kind", "") == "c"  # the dtype of JAX keys has no kind


def _complex(eqn: JaxprEqn) -> int:
    """The count of the same equation of real numbers, times what a complex element costs."""
    name = eqn.primitive.name
    if name not in COMPLEX and name not in _ELEMENTWISE:
        raise ValueError("what it costs with complex numbers is not known here")
    each = COMPLEX.get(name, OTHER_COMPLEX)
    if name in _ELEMENTWISE or name in ("complex", "conj", "imag", "real"):
        return each * math.prod(eqn.outvars[0].aval.shape)
    if name in _QUICK:
        return each * _QUICK[name](eqn)
    if name in FORMULAS:
        return each * FORMULAS[name](eqn)
    if name == "reduce_prod":
        return each * _reduction_flops(eqn)
    return each * _lower(eqn, real=True)


def _as_xla_counts(eqn: JaxprEqn) -> int:
    if quick := _QUICK.get(eqn.primitive.name):
        return round(float(np.float32(quick(eqn))))
    return _lower(eqn)


def _lower(eqn: JaxprEqn, real: bool = False) -> int:
    shapes, size = [v.aval.shape for v in eqn.invars], 1
    if eqn.primitive.name in _ELEMENTWISE:
        shapes, size = [()] * len(shapes), math.prod(eqn.outvars[0].aval.shape)
    dtypes = [np.float32 if real and _is_complex(v) else v.aval.dtype for v in eqn.invars]
    operands = tuple(map(jax.ShapeDtypeStruct, shapes, dtypes))
    dropped = ("sharding", "preferred_element_type") if real else ("sharding",)
    params = ((k, None if k.endswith(dropped) else v) for k, v in eqn.params.items())
    return size * _lowered_flops(eqn.primitive, tuple(params), operands)


@functools.lru_cache(maxsize=4096)
def _lowered_flops(primitive, params: tuple, operands: tuple) -> int:
    # Whatever devices and mesh the caller uses, the program is that of one device. The CPU form of
    # threefry is a loop; the TPU's is not.
    platform = "tpu" if primitive.name.startswith(("random_", "threefry")) else "cpu"
    device = jax.local_devices()[:1]
    with jax.default_device(device[0]), jax.set_mesh(jax.sharding.Mesh(device, ("only",))):
        jitted = jax.jit(lambda *xs: primitive.bind(*xs, **dict(params)))
        lowered = jitted.trace(*operands).lower(lowering_platforms=(platform,))
    module = lowered.compiler_ir("hlo").as_hlo_module()
    flops = xla_client._xla.hlo_module_cost_analysis(_cpu(), module).get("flops", 0)
    if flops < 0 or any(mark in lowered.as_text() for mark in _OPAQUE):
        raise ValueError("XLA does not see what it computes")
    return round(flops)


@functools.cache
def _cpu() -> xla_client.Client:
    """XLA's CPU client, independent of JAX's backends: a GPU's client has no cost analysis, and
    with `JAX_PLATFORMS=cuda` JAX has no CPU backend.
    """
    return xla_client.make_cpu_client()
