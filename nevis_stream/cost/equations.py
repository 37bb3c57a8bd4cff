"""FLOPs of single equations of a program, and their values where these follow from constants.

FLOPs are XLA's count of the equation, lowered alone, except where XLA has none or one that is too
high: these follow formulas.

Sorting n elements is n ⌈log₂ n⌉; the k largest of n are n ⌈log₂ k⌉, at least n; a cumulative sum is
n, and so is the index of the largest, but for one comparison. Linear algebra is that of dense
matrices; a complex FLOP is 4 real ones. A Fourier transform is 5 N Σ log₂ nᵢ, N the elements of
the batch and of all transformed axes and nᵢ the sides; half of it if one of its ends is real.

The loops of a sampler that rejects depend on its draws, so its cost is the expected one. A gamma
draw is 1470: it is accepted with a probability of at least 0.95 (shape 1; more above, and smaller
shapes are moved there), and an attempt takes five keys, a normal and a uniform number. Beta and
Dirichlet draws consist of gamma draws. A Poisson draw is 1850: 11 uniform numbers, which the
largest rate of the first loop (10) needs, and 1.2 attempts of the second, as both run for every
element.

Of complex numbers a sum is 2, a product 6, a quotient 11, an absolute value or a comparison 3 and
any other function 6; in sums of products (matrix products, convolutions) each product
with its addition is 8.

Sources: LAPACK Working Note 41, appendix C (Cholesky, LU, QR, triangular solve, reductions); Golub
and Van Loan, Matrix Computations, 4th edition, sections 7.5 (eig, Schur), 8.3 (eigh), 8.6 (SVD of
Golub and Reinsch); Van Loan, Computational Frameworks for the Fast Fourier Transform, section 1.4;
Marsaglia and Tsang, A simple method for generating gamma variables (2000); Knuth, The Art of
Computer Programming, volume 2, section 3.4.1, and Hörmann, The transformed rejection method for
generating Poisson random variables (1993).

Values are those of whole numbers, such as a loop's counter and what is computed from it: from them
follows which branch runs, and how often a loop over a constant range does.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import JaxprEqn, Literal
from jaxlib import xla_client

Formula = Callable[[JaxprEqn], int]

GAMMA_DRAW = 1470
POISSON_DRAW = 1850


def _count_reduction(eqn: JaxprEqn) -> int:
    """Each element but the first of a row meets what the ones before it gave."""
    before, after = (math.prod(each[0].aval.shape) for each in (eqn.invars, eqn.outvars))
    return max(0, before - after)


def _count_fft(eqn: JaxprEqn) -> int:
    given, result = eqn.invars[0].aval, eqn.outvars[0].aval
    sides = eqn.params["fft_lengths"]
    half = given.dtype.kind != "c" or result.dtype.kind != "c"
    elements = math.prod((result if given.dtype.kind == "c" else given).shape)
    return round((2.5 if half else 5) * elements * sum(math.log2(side) for side in sides if side))


def _count_ragged_dot(eqn: JaxprEqn) -> int:
    """Every row of the left matrix meets one of the right ones."""
    numbers = eqn.params["ragged_dot_dimension_numbers"]
    (_, contracted), (_, batch) = numbers.dot_dimension_numbers
    left, right = (var.aval.shape for var in eqn.invars[:2])
    shared = {*contracted, *batch, *numbers.rhs_group_dimensions}
    columns = math.prod(side for axis, side in enumerate(right) if axis not in shared)
    return 2 * math.prod(left) * columns


def _make_cumulative(per_element: int) -> Formula:
    """One pass over the data; XLA would count a window as long as the data for each element."""
    return lambda eqn: per_element * math.prod(eqn.invars[0].aval.shape)


def _count_sorting(eqn: JaxprEqn) -> int:
    shape = eqn.invars[0].aval.shape
    among = eqn.params["k"] if "k" in eqn.params else shape[eqn.params["dimension"]]
    return math.prod(shape) * max(1, (among - 1).bit_length())


def _make_matrix_formula(formula: Callable[[JaxprEqn, int, int], float]) -> Formula:
    """Returns the formula of a batch of m×n matrices, given that of one real matrix."""

    def flops(eqn: JaxprEqn) -> int:
        *batch, m, n = eqn.invars[0].aval.shape
        factor = 4 if eqn.invars[0].aval.dtype.kind == "c" else 1
        return math.prod(batch) * factor * round(formula(eqn, m, n))

    return flops


def _count_reflections(m: int, n: int, k: int) -> float:
    return 4 * m * n * k - 2 * (m + n) * k**2 + 4 * k**3 / 3


def _count_qr(eqn: JaxprEqn, m: int, n: int) -> float:
    k = min(m, n)
    return _count_reflections(m, n, k) + _count_reflections(m, eqn.outvars[0].aval.shape[-1], k)


def _count_svd(eqn: JaxprEqn, m: int, n: int) -> float:
    m, n = max(m, n), min(m, n)
    if not eqn.params["compute_uv"]:
        return 4 * m * n**2 - 4 * n**3 / 3
    if eqn.params["full_matrices"]:
        return 4 * m**2 * n + 8 * m * n**2 + 9 * n**3
    return 14 * m * n**2 + 8 * n**3


_OF_MATRIX: dict[str, Callable[[JaxprEqn, int, int], float]] = {
    "cholesky": lambda eqn, m, n: n**3 / 3,
    "eig": lambda eqn, m, n: (25 if len(eqn.outvars) > 1 else 10) * n**3,
    "eigh": lambda eqn, m, n: 9 * n**3,
    "hessenberg": lambda eqn, m, n: 10 * n**3 / 3,
    "householder_product": lambda eqn, m, n: _count_reflections(m, n, eqn.invars[1].aval.shape[-1]),
    "lu": lambda eqn, m, n: _count_reflections(m, n, min(m, n)) / 2,
    "qr": _count_qr,
    "schur": lambda eqn, m, n: (25 if len(eqn.outvars) > 1 else 10) * n**3,
    "svd": _count_svd,
    "triangular_solve": lambda eqn, m, n: math.prod(eqn.invars[1].aval.shape[-2:]) * n,
    "tridiagonal": lambda eqn, m, n: 4 * n**3 / 3,
}

FORMULAS: dict[str, Formula] = {
    "cumlogsumexp": _make_cumulative(8),
    "fft": _count_fft,
    "ragged_dot_general": _count_ragged_dot,
    "random_gamma": lambda eqn: GAMMA_DRAW * math.prod(eqn.outvars[0].aval.shape),
    **dict.fromkeys(("argmax", "argmin"), _count_reduction),
    **dict.fromkeys(("cummax", "cummin", "cumprod", "cumsum"), _make_cumulative(1)),
    **dict.fromkeys(("sort", "top_k", "approx_top_k"), _count_sorting),
    **{name: _make_matrix_formula(formula) for name, formula in _OF_MATRIX.items()},
}

# FLOPs of each complex element, or of each step of a reduction; for sums of products, a factor on
# the count of real numbers, which is 2 for each product. Other functions are OTHER_COMPLEX.
COMPLEX = {
    **dict.fromkeys(("abs", "eq", "ne", "reduce_max", "reduce_min"), 3),
    **dict.fromkeys(("add", "add_any", "neg", "sub", "convert_element_type", "select_n"), 2),
    **dict.fromkeys(("cumsum", "reduce_sum", "reduce_window_sum", "scatter-add"), 2),
    **dict.fromkeys(("cumprod", "mul", "reduce_prod", "scatter-mul"), 6),
    **dict.fromkeys(("complex", "imag", "real", "gather", "scatter"), 0),
    **dict.fromkeys(("conv_general_dilated", "dot_general", "ragged_dot_general"), 4),
    "conj": 1,
    "div": 11,
}
OTHER_COMPLEX = 6

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


def _count_dot_general(eqn: JaxprEqn) -> int:
    (contracted, _), _ = eqn.params["dimension_numbers"]
    width = math.prod(eqn.invars[0].aval.shape[axis] for axis in contracted)
    return 2 * math.prod(eqn.outvars[0].aval.shape) * width


# What XLA counts for each element of real numbers, listed because lowering an equation takes 15 ms
# for each shape or, of elementwise functions, in each process for each kind of number.
_PER_ELEMENT = {
    **dict.fromkeys(
        str.split(
            "abs add and ceil clamp convert_element_type div eq exp2 floor ge gt is_finite le lt"
            " max min mul ne neg not or rem round select_n shift_left shift_right_arithmetic"
            " shift_right_logical square sub xor"
        ),
        1,
    ),
    **dict.fromkeys(
        str.split("cbrt cos erf exp expm1 log log1p pow rsqrt sin sqrt tan tanh"),
        0,
    ),
    "logistic": 3,
}
# What XLA counts for the whole equation, for the same reason.
_QUICK = {
    "dot_general": _count_dot_general,
    "reduce_max": _count_reduction,
    "reduce_min": _count_reduction,
    "reduce_sum": _count_reduction,
}

_OPAQUE = ("stablehlo.while", "custom_call", "chlo.top_k")  # where XLA's count is wrong or -1


def is_poisson(eqn: JaxprEqn) -> bool:
    """Says whether an equation is JAX's sampler of Poisson numbers."""
    return eqn.params.get("name") == "_poisson" and any(
        inner.params.get("name") == "_poisson_knuth" for inner in eqn.params["jaxpr"].jaxpr.eqns
    )


def count_once(eqn: JaxprEqn) -> int:
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
        return _count_complex(eqn)
    if name not in _BY_XLA | _ELEMENTWISE | _QUICK.keys():
        raise ValueError("what it computes is not known here")
    return _count_as_xla(eqn)


def _is_complex(atom: Any) -> bool:
    dtype = getattr(atom.aval, "dtype", None)
    return getattr(dtype, "kind", "") == "c"  # the dtype of JAX keys has no kind


def _count_complex(eqn: JaxprEqn) -> int:
    """`COMPLEX` times the number of elements, or times the count of the same real equation."""
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
        return each * _count_reduction(eqn)
    return each * _count_by_lowering(eqn, real=True)


def _count_as_xla(eqn: JaxprEqn) -> int:
    name = eqn.primitive.name
    if quick := _QUICK.get(name):
        return round(float(np.float32(quick(eqn))))
    dtypes = [v.aval.dtype for v in eqn.invars]
    numbers = all(isinstance(dtype, np.dtype) for dtype in dtypes)  # those of JAX keys are not
    if name == "convert_element_type" and dtypes[0] == eqn.params["new_dtype"]:
        return 0  # such as that of a weak type: nothing is lowered
    # a choice between more than two is made of several
    if name in _PER_ELEMENT and numbers and (name != "select_n" or dtypes[0].kind == "b"):
        return _PER_ELEMENT[name] * math.prod(eqn.outvars[0].aval.shape)
    return _count_by_lowering(eqn)


def _count_by_lowering(eqn: JaxprEqn, real: bool = False) -> int:
    shapes, size = [v.aval.shape for v in eqn.invars], 1
    if eqn.primitive.name in _ELEMENTWISE:
        shapes, size = [()] * len(shapes), math.prod(eqn.outvars[0].aval.shape)
    dtypes = [np.float32 if real and _is_complex(v) else v.aval.dtype for v in eqn.invars]
    operands = tuple(map(jax.ShapeDtypeStruct, shapes, dtypes))
    dropped = ("sharding", "preferred_element_type") if real else ("sharding",)
    params = ((k, None if k.endswith(dropped) else v) for k, v in eqn.params.items())
    return size * _count_lowered(eqn.primitive, tuple(params), operands)


@functools.lru_cache(maxsize=4096)
def _count_lowered(primitive, params: tuple, operands: tuple) -> int:
    # Whatever devices and mesh the caller uses, the program is that of one device. The CPU form of
    # threefry is a loop; the TPU's is not.
    platform = "tpu" if primitive.name.startswith(("random_", "threefry")) else "cpu"
    device = jax.local_devices()[:1]
    with jax.default_device(device[0]), jax.set_mesh(jax.sharding.Mesh(device, ("only",))):
        jitted = jax.jit(lambda *xs: primitive.bind(*xs, **dict(params)))
        lowered = jitted.trace(*operands).lower(lowering_platforms=(platform,))
    module = lowered.compiler_ir("hlo").as_hlo_module()
    flops = xla_client._xla.hlo_module_cost_analysis(_make_cpu_client(), module).get("flops", 0)
    if flops < 0 or any(mark in lowered.as_text() for mark in _OPAQUE):
        raise ValueError("XLA does not see what it computes")
    return round(flops)


@functools.cache
def _make_cpu_client() -> xla_client.Client:
    """XLA's CPU client, independent of JAX's backends: a GPU's client has no cost analysis, and
    with `JAX_PLATFORMS=cuda` JAX has no CPU backend.
    """
    return xla_client.make_cpu_client()


Value = np.ndarray | None
"""A whole number that follows from constants, or an array of them, in one program or in each of
several runs of it: [runs, …], or [1, …] if it is the same in all; None: it depends on data."""

LARGEST = 2**20
"""Elements of the largest array that is followed."""


def _divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.sign(a) * np.sign(b) * (abs(a) // abs(b))  # towards zero, as in XLA


def _choose(which: np.ndarray, *cases: np.ndarray) -> np.ndarray:
    return np.choose(which.astype(int), cases)


_BY_NUMPY = {
    "abs": np.abs,
    "add": np.add,
    "and": np.bitwise_and,
    "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
    "convert_element_type": np.asarray,
    "copy": np.asarray,
    "div": _divide,
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

_REDUCTIONS_BY_NUMPY = {
    "reduce_and": np.all,
    "reduce_max": np.max,
    "reduce_min": np.min,
    "reduce_or": np.any,
    "reduce_sum": np.sum,
}


def read_constant(value: Any) -> Value:
    """Returns a constant of a program, or None if it is not of whole numbers, or is too large."""
    array = np.asarray(value) if isinstance(value, int | np.generic | np.ndarray) else value
    if not _is_whole(getattr(array, "dtype", None)) or array.size > LARGEST:
        return None
    return np.asarray(array)[None]


def _is_whole(dtype: object) -> bool:
    return getattr(dtype, "kind", "f") in "biu"


def find_value(atom: object, known: dict) -> Value:
    """Returns the value of an equation's operand."""
    if isinstance(atom, Literal):
        value = read_constant(atom.val)
        return None if value is None else value.astype(atom.aval.dtype)
    return known.get(atom)


def evaluate_equation(eqn: JaxprEqn, operands: Sequence[Value]) -> Value:
    """Returns the result of an equation, or None if it is not known."""
    (out,), name = eqn.outvars, eqn.primitive.name
    if any(value is None for value in operands) or not _is_whole(getattr(out.aval, "dtype", None)):
        return None
    if out.aval.size * max((len(value) for value in operands), default=1) > LARGEST:
        return None
    value = _compute(name, eqn.params, out.aval.shape, operands)
    return None if value is None else value.astype(out.aval.dtype)


def _compute(name: str, params: dict, shape: tuple[int, ...], operands: Sequence) -> Value:
    if name in ("div", "rem") and not operands[1].all():
        return None
    if name in _BY_NUMPY:
        rank = len(shape) + 1  # constants without axes meet arrays
        aligned = (x.reshape(len(x), *(1,) * (rank - x.ndim), *x.shape[1:]) for x in operands)
        with np.errstate(over="ignore"):
            return _BY_NUMPY[name](*aligned)
    if name in _REDUCTIONS_BY_NUMPY:
        return _REDUCTIONS_BY_NUMPY[name](
            operands[0], axis=tuple(axis + 1 for axis in params["axes"])
        )
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
