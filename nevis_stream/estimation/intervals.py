"""95% intervals of the mean of n values, some of which were observed."""

import numpy as np

from nevis_stream.array_types import Float

PerModel = Float[np.ndarray, " models"]

NORMAL_975 = 1.959963984540054
# known models or groups that a width can be learned from (with three or fewer, 95% intervals
# covered 15–94%)
FEWEST = 5
NEEDS_BOUNDS = (
    "the method's interval needs bounds of the metric, and none are stated (--range=LOW,HIGH)"
)
MOST_MISSING = 0.1  # fraction of samples without an answer above which there is no interval
TOO_FEW = f"fewer than {FEWEST} known models or runs to cross-validate the method on"


def compute_wilson(mean: np.ndarray, seen: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
    """Returns the 95% score interval of a proportion, float64[m] twice.

    Args:
      mean: float[m], the fraction of ones.
      seen: float[m] or a number: the number of draws, not necessarily whole; if it is infinite the
        interval is the mean itself.

    Source: Wilson 1927, equation for the limits of p.
    """
    mean = np.asarray(mean, np.float64)
    shrink = NORMAL_975**2 / np.asarray(seen, np.float64)
    centre = (mean + shrink / 2) / (1 + shrink)
    half = np.sqrt(np.maximum(mean * (1 - mean) * shrink + shrink**2 / 4, 0)) / (1 + shrink)
    return np.maximum(centre - half, 0), np.minimum(centre + half, 1)


def count_effective(seen: float, n: int, design: float = 1.0) -> float:
    """Returns the number of draws with replacement that are as informative as `seen` of n without.

    Args:
      seen: number of observed samples; n gives infinity.
      n: number of samples: the finite-population correction multiplies the variance by
        (n - seen) / (n - 1).
      design: another factor of the variance, relative to simple random sampling.

    Source: Cochran, Sampling Techniques, section 2.6.
    """
    if n - seen < 1e-6 or design == 0:  # fractions add up to a whole number only approximately
        return np.inf
    return seen * (n - 1) / (n - seen) / design


def extend(
    low: PerModel, high: PerModel, unbiased: PerModel, error: PerModel
) -> tuple[PerModel, PerModel]:
    """Returns the interval of an accuracy, between 0 and 1, extended where a model's own samples
    contradict it.

    If a model is unlike all known models, its interval is too narrow. Its own samples show this: if
    their unbiased estimate is more than two standard errors outside the interval, the interval is
    extended to the 95% interval of that estimate.

    Args:
      low, high: float[m], the interval.
      unbiased: float[m], the unbiased estimate.
      error: float[m], its standard error.
    """
    reach = NORMAL_975 * error
    low = np.where(unbiased + 2 * error < low, unbiased - reach, low)
    high = np.where(unbiased - 2 * error > high, unbiased + reach, high)
    return np.clip(low, 0, 1), np.clip(high, 0, 1)


def explain_missing(missing: float) -> str:
    """Returns why there is no interval where this fraction of the samples gave no answer."""
    return (
        f"{missing:.0%} of the samples have no answer, and nothing says that the others were drawn"
        " at random"
    )


def allow_for_missing(
    low: PerModel, high: PerModel, missing: PerModel
) -> tuple[PerModel, PerModel]:
    """Returns the interval of a mean between 0 and 1 if a fraction of the samples gives no answer:
    their values may be anything between 0 and 1 (worst-case bounds). NaN if they are too many.

    Args:
      low, high: float[m], the interval of the mean of samples with an answer.
      missing: float[m], the fraction of samples without one.

    Source: Manski 1989, Anatomy of the selection problem.
    """
    keep = np.where(missing > MOST_MISSING, np.nan, 1 - missing)
    return low * keep, high * keep + (1 - keep)
