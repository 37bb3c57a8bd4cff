"""Exponents of a risk in eps, fitted on logarithms, with 95% intervals."""

from dataclasses import dataclass

import numpy as np

from nevis_stream.errors import BadInput

FEWEST = 3


@dataclass(frozen=True)
class Exponent:
    """risk = constant × eps^exponent, by least squares; `low` and `high` bound the exponent."""

    exponent: float
    low: float
    high: float
    constant: float
    n: int


def fit_exponent(eps: np.ndarray, risks: np.ndarray) -> Exponent:
    """Fits a power law and returns its exponent with a 95% interval (Student's t).

    The risks of worst cases are exact, so the interval shows how far they are from a power law,
    not noise.

    Args:
      eps: float64[n], at least 3 different values.
      risks: float64[n], positive.

    Raises:
      BadInput: fewer values, or a risk of 0.

    >>> fit_exponent(np.array([0.1, 0.05, 0.02]), np.array([0.02, 0.005, 0.0008])).exponent
    2.0
    """
    from scipy.stats import linregress, t

    eps, risks = np.asarray(eps, float), np.asarray(risks, float)
    if len(np.unique(eps)) < FEWEST or np.any(risks <= 0):
        raise BadInput(f"an exponent needs {FEWEST} values of eps or more, and positive risks.")
    line = linregress(np.log(eps), np.log(risks))
    half = t.ppf(0.975, len(eps) - 2) * line.stderr
    slope = round(float(line.slope), 10)
    return Exponent(slope, slope - half, slope + half, float(np.exp(line.intercept)), len(eps))
