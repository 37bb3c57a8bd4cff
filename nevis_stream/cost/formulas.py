"""FLOPs of equations for which XLA's cost analysis is missing or too high.

Sorting n elements is n ⌈log₂ n⌉; the k largest of n are n ⌈log₂ k⌉, at least n; a cumulative sum is
n. Linear algebra is that of dense matrices; a complex FLOP is 4 real ones.

Sources: LAPACK Working Note 41, appendix C (Cholesky, LU, QR, triangular solve, reductions); Golub
and Van Loan, Matrix Computations, 4th edition, sections 7.5 (eig, Schur), 8.3 (eigh), 8.6 (SVD of
Golub and Reinsch).
"""

import math
from collections.abc import Callable

from jax.extend.core import JaxprEqn

Formula = Callable[[JaxprEqn], int]


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
    **dict.fromkeys(("cummax", "cummin", "cumprod", "cumsum"), _cumulative(1)),
    **dict.fromkeys(("sort", "top_k", "approx_top_k"), _sorting),
    **{name: _of_matrix(formula) for name, formula in _OF_MATRIX.items()},
}
