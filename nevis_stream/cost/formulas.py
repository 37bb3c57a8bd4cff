"""FLOPs of equations for which XLA's cost analysis is missing or too high.

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
any other function 6; a sum of products of complex numbers is 8 for each.

Sources: LAPACK Working Note 41, appendix C (Cholesky, LU, QR, triangular solve, reductions); Golub
and Van Loan, Matrix Computations, 4th edition, sections 7.5 (eig, Schur), 8.3 (eigh), 8.6 (SVD of
Golub and Reinsch); Van Loan, Computational Frameworks for the Fast Fourier Transform, section 1.4;
Marsaglia and Tsang, A simple method for generating gamma variables (2000); Knuth, The Art of
Computer Programming, volume 2, section 3.4.1, and Hörmann, The transformed rejection method for
generating Poisson random variables (1993).
"""

import math
from collections.abc import Callable

from jax.extend.core import JaxprEqn

Formula = Callable[[JaxprEqn], int]

GAMMA_DRAW = 1470
POISSON_DRAW = 1850


def _of_reduction(eqn: JaxprEqn) -> int:
    """Each element but the first of a row is compared with the best so far."""
    before, after = (math.prod(each[0].aval.shape) for each in (eqn.invars, eqn.outvars))
    return max(0, before - after)


def _fft(eqn: JaxprEqn) -> int:
    given, result = eqn.invars[0].aval, eqn.outvars[0].aval
    sides = eqn.params["fft_lengths"]
    half = given.dtype.kind != "c" or result.dtype.kind != "c"
    elements = math.prod((result if given.dtype.kind == "c" else given).shape)
    return round((2.5 if half else 5) * elements * sum(math.log2(side) for side in sides if side))


def _ragged_dot(eqn: JaxprEqn) -> int:
    """Every row of the left matrix meets one of the right ones."""
    numbers = eqn.params["ragged_dot_dimension_numbers"]
    (_, contracted), (_, batch) = numbers.dot_dimension_numbers
    left, right = (var.aval.shape for var in eqn.invars[:2])
    shared = {*contracted, *batch, *numbers.rhs_group_dimensions}
    columns = math.prod(side for axis, side in enumerate(right) if axis not in shared)
    return 2 * math.prod(left) * columns


def _cumulative(per_element: int) -> Formula:
    """One pass over the data; XLA would count a window as long as the data for each element."""
    return lambda eqn: per_element * math.prod(eqn.invars[0].aval.shape)


def _sorting(eqn: JaxprEqn) -> int:
    shape = eqn.invars[0].aval.shape
    among = eqn.params["k"] if "k" in eqn.params else shape[eqn.params["dimension"]]
    return math.prod(shape) * max(1, (among - 1).bit_length())


def _of_matrix(formula: Callable[[JaxprEqn, int, int], float]) -> Formula:
    """Returns the FLOPs of a batch of m×n matrices, given those of one real matrix."""

    def flops(eqn: JaxprEqn) -> int:
        *batch, m, n = eqn.invars[0].aval.shape
        real = 4 if eqn.invars[0].aval.dtype.kind == "c" else 1
        return math.prod(batch) * real * round(formula(eqn, m, n))

    return flops


def _reflections(m: int, n: int, k: int) -> float:
    return 4 * m * n * k - 2 * (m + n) * k**2 + 4 * k**3 / 3


def _qr(eqn: JaxprEqn, m: int, n: int) -> float:
    k = min(m, n)
    return _reflections(m, n, k) + _reflections(m, eqn.outvars[0].aval.shape[-1], k)


def _svd(eqn: JaxprEqn, m: int, n: int) -> float:
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
    "householder_product": lambda eqn, m, n: _reflections(m, n, eqn.invars[1].aval.shape[-1]),
    "lu": lambda eqn, m, n: _reflections(m, n, min(m, n)) / 2,
    "qr": _qr,
    "schur": lambda eqn, m, n: (25 if len(eqn.outvars) > 1 else 10) * n**3,
    "svd": _svd,
    "triangular_solve": lambda eqn, m, n: math.prod(eqn.invars[1].aval.shape[-2:]) * n,
    "tridiagonal": lambda eqn, m, n: 4 * n**3 / 3,
}

FORMULAS: dict[str, Formula] = {
    "cumlogsumexp": _cumulative(8),
    "fft": _fft,
    "ragged_dot_general": _ragged_dot,
    "random_gamma": lambda eqn: GAMMA_DRAW * math.prod(eqn.outvars[0].aval.shape),
    **dict.fromkeys(("argmax", "argmin"), _of_reduction),
    **dict.fromkeys(("cummax", "cummin", "cumprod", "cumsum"), _cumulative(1)),
    **dict.fromkeys(("sort", "top_k", "approx_top_k"), _sorting),
    **{name: _of_matrix(formula) for name, formula in _OF_MATRIX.items()},
}

# FLOPs of one complex element, or of each step of a reduction; other elementwise functions are 6.
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
