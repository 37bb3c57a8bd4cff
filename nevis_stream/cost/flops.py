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
  recognised as a loop over a constant range; `cond` counts its most expensive branch, as in XLA.
* Rematerialised equations count each time that they run. Shardings change nothing: the count is
  that of the global program.
* Sorting, cumulative sums and dense linear algebra follow formulas (nevis_stream/cost/formulas.py).
* Equations that hide their work (callbacks, foreign calls, Pallas kernels, `shard_map`, loops of
  unknown length) raise `CostUnknown`.

An equation's count is rounded like XLA's float32: exact below 2**24, within a factor of 6e-8 above.
"""

import functools
import math
import operator
from collections.abc import Callable, Sequence

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal
from jax.interpreters import partial_eval
from jaxlib import xla_client

from nevis_stream.cost.formulas import FORMULAS
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
        " dynamic_update_slice layout_constraint lu_pivots_to_permutation name pad"
        " optimization_barrier platform_index random_clone random_unwrap random_wrap relayout"
        " reshape reshard rev sharding_constraint slice split squeeze stack stop_gradient transpose"
        " unstack with_memory_space_constraint"
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


def count_jaxpr(closed_jaxpr: ClosedJaxpr) -> int:
    """Returns the FLOPs of one run of a traced program, such as `jax.jit(fn).trace(*args).jaxpr`.

    Raises:
      CostUnknown: part of the program cannot be counted; the message names it.
    """
    return _program(closed_jaxpr, closed_jaxpr.jaxpr.debug_info.func_src_info)


def _program(jaxpr, where: str) -> int:
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    live, _ = partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))
    return sum(_equation(eqn, where) for eqn in live.eqns)


def _equation(eqn: JaxprEqn, where: str) -> int:
    name, params = eqn.primitive.name, eqn.params
    try:
        if name in _FREE:
            return 0
        if name in _CALLS:
            return _program(params[_CALLS[name]], where)
        if name == "scan":
            return _repeat(params["length"], params["jaxpr"], where)
        if name == "while":
            trips = _trips(eqn)
            condition = _repeat(trips + 1, params["cond_jaxpr"], where)
            return condition + _repeat(trips, params["body_jaxpr"], where)
        if name == "cond":
            return max(_program(branch, where) for branch in _branches(params))
        if name == "shard_map":
            raise ValueError("it is the program of one device: give `jax.jit` shardings instead")
        if name == "custom_linear_solve":
            return _program(params["jaxprs"].solve, where)
        formula = FORMULAS.get(name)
        return formula(eqn) if formula else _as_xla_counts(eqn)
    except CostUnknown:
        raise
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise CostUnknown(
            f"{where}: the FLOPs of `{name}` cannot be counted ({reason}). Give loops a fixed "
            "length (`lax.scan`, `lax.fori_loop`), or run this part with plain `jax.jit` and "
            "charge its cost with `ctx.charge`."
        ) from error


def _repeat(times: int, jaxpr, where: str) -> int:
    return times * _program(jaxpr, where) if times else 0


def _branches(params) -> Sequence[ClosedJaxpr]:
    """All branches, but of `lax.platform_dependent` the CPU's, else the default, which is last."""
    branches, platforms = params["branches"], params.get("branches_platforms")
    if platforms is None:
        return branches
    return [b for b, p in zip(branches, platforms, strict=True) if p is None or "cpu" in p][:1]


def _trips(eqn: JaxprEqn) -> int:
    """Trips of a `while` over a constant range (what `fori_loop` makes); ValueError for others."""
    condition, body = eqn.params["cond_jaxpr"].jaxpr, eqn.params["body_jaxpr"].jaxpr
    n_condition, n_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    outer = [*eqn.invars[:n_condition], *eqn.invars[n_condition + n_body :]]  # as the condition's
    fixed = [None] * n_condition + body.invars[n_body:]
    after = [None] * n_condition + body.outvars

    def constant(var) -> int:
        if not isinstance(var, Literal):
            at = condition.invars.index(var)
            if after[at] is not fixed[at]:
                raise ValueError
            var = outer[at]
        return operator.index(var.val)

    try:
        (test,) = condition.eqns
        counter, stop = test.invars
        at = condition.invars.index(counter)
        (update,) = (e for e in body.eqns if after[at] is e.outvars[0])
        (step,) = (v for v in update.invars if v is not fixed[at])
        step = operator.index(step.val)
        if (test.primitive.name, update.primitive.name) != ("lt", "add") or step < 1:
            raise ValueError
        trips = -((operator.index(outer[at].val) - constant(stop)) // step)
    except (ValueError, TypeError, AttributeError):
        raise ValueError("its number of trips is not a constant of the program") from None
    return max(trips, 0)


def _as_xla_counts(eqn: JaxprEqn) -> int:
    quick = _QUICK.get(eqn.primitive.name)
    if quick and eqn.invars[0].aval.dtype.kind != "c":
        return round(float(np.float32(quick(eqn))))
    return _lowered(eqn)


def _lowered(eqn: JaxprEqn) -> int:
    shapes, size = [v.aval.shape for v in eqn.invars], 1
    if eqn.primitive.name in _ELEMENTWISE:
        shapes, size = [()] * len(shapes), math.prod(eqn.outvars[0].aval.shape)
    dtypes = [v.aval.dtype for v in eqn.invars]
    operands = tuple(map(jax.ShapeDtypeStruct, shapes, dtypes))
    params = ((k, None if k.endswith("sharding") else v) for k, v in eqn.params.items())
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
