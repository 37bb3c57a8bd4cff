"""Intervals of a mean of outcomes, of which b of n were seen."""

import numpy as np

NORMAL_975 = 1.959963984540054


def wilson(mean: np.ndarray, seen: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
    """Returns the 95% score interval of a proportion, float64[m] twice.

    Args:
      mean: float[m], the share of ones.
      seen: float[m] or a number: draws it is the mean of; need not be whole; infinite: the interval is the mean itself.

    Source: Wilson 1927, equation for the limits of p.
    """
    mean = np.asarray(mean, np.float64)
    shrink = NORMAL_975**2 / np.asarray(seen, np.float64)
    centre = (mean + shrink / 2) / (1 + shrink)
    half = np.sqrt(np.maximum(mean * (1 - mean) * shrink + shrink**2 / 4, 0)) / (1 + shrink)
    return np.maximum(centre - half, 0), np.minimum(centre + half, 1)


def effective(seen: int, n: int, design: float = 1.0) -> float:
    """Returns how many draws with replacement say as much as `seen` of n without.

    Args:
      seen: outcomes that were asked; n gives infinity.
      n: samples there are: the finite-population correction is (n - seen) / (n - 1) of the variance.
      design: further factor of the variance, relative to simple random sampling.

    Source: Cochran, Sampling Techniques, section 2.6.
    """
    return np.inf if seen == n or design == 0 else seen * (n - 1) / (n - seen) / design
