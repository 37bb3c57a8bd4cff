"""Intervals of a mean of outcomes, of which b of n were seen, and of estimates that known models
have tried.
"""

from collections.abc import Sequence

import numpy as np

NORMAL_975 = 1.959963984540054
# known models or groups, from which a width can be learned (of three or less, 95% intervals covered
# 15–94%)
FEWEST = 5
TOO_FEW = f"fewer than {FEWEST} known models or runs have tried the method"


def wilson(mean: np.ndarray, seen: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
    """Returns the 95% score interval of a proportion, float64[m] twice.

    Args:
      mean: float[m], the share of ones.
      seen: float[m] or a number: draws it is the mean of; need not be whole; infinite: the interval
        is the mean itself.

    Source: Wilson 1927, equation for the limits of p.
    """
    mean = np.asarray(mean, np.float64)
    shrink = NORMAL_975**2 / np.asarray(seen, np.float64)
    centre = (mean + shrink / 2) / (1 + shrink)
    half = np.sqrt(np.maximum(mean * (1 - mean) * shrink + shrink**2 / 4, 0)) / (1 + shrink)
    return np.maximum(centre - half, 0), np.minimum(centre + half, 1)


def effective(seen: float, n: int, design: float = 1.0) -> float:
    """Returns how many draws with replacement say as much as `seen` of n without.

    Args:
      seen: outcomes that were asked; n gives infinity.
      n: samples there are: the finite-population correction is (n - seen) / (n - 1) of the
        variance.
      design: further factor of the variance, relative to simple random sampling.

    Source: Cochran, Sampling Techniques, section 2.6.
    """
    if n - seen < 1e-6 or design == 0:  # a sum of shares is all but whole
        return np.inf
    return seen * (n - 1) / (n - seen) / design


def half_width(errors: np.ndarray, unit: np.ndarray, independent: int, prior: float = 0.0) -> float:
    """Returns the half-width of the 95% interval of estimates like some tried ones, in units: the
    97.5% point of Student's t.

    Args:
      errors: float[m], how far the tried ones were from the truth.
      unit: float[m], what each error is measured in; an error with unit 0 says nothing.
      independent: how many of the m can be taken for independent (groups); gives the degrees of
        freedom.
      prior: how many further errors of one unit are taken for seen.
    """
    from scipy.stats import t

    usable = unit > 0
    squares = ((errors[usable] / unit[usable]) ** 2).sum()
    freedom = min(usable.sum(), independent) + prior
    return (
        float(np.sqrt((squares + prior) / (usable.sum() + prior)) * t.ppf(0.975, freedom))
        if freedom
        else np.nan
    )


def extended(
    low: np.ndarray, high: np.ndarray, unbiased: np.ndarray, error: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Returns an interval of an accuracy within 0 and 1 that goes on to where samples say the
    accuracy is.

    A model unlike all known ones is predicted with a confidence that it does not deserve. Its own
    samples show this: where their unbiased estimate is more than two standard errors outside the
    interval, this is extended to that estimate's own.

    Args:
      low, high: float[m], the interval by a model.
      unbiased: float[m], an estimate that needs no model.
      error: float[m], its standard error.
    """
    reach = NORMAL_975 * error
    low = np.where(unbiased + 2 * error < low, unbiased - reach, low)
    high = np.where(unbiased - 2 * error > high, unbiased + reach, high)
    return np.clip(low, 0, 1), np.clip(high, 0, 1)


def tried(errors: np.ndarray, groups: Sequence) -> float:
    """Returns the half-width of the 95% interval that known models found which played new ones.

    Args:
      errors: float[k], of the accuracies of those models that could be tried.
      groups: of all known models; a group's models err alike.

    Returns: NaN where fewer than `FEWEST` groups, or models, are there.
    """
    independent = min(len(set(groups)), len(errors))
    return (
        half_width(errors, np.ones(len(errors)), independent) if independent >= FEWEST else np.nan
    )
