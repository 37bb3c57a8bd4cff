"""Unbiased estimates from adaptive draws, as sums of martingale differences.

Each draw alone gives an unbiased estimate of the risk, given all that happened before it:

  θ_m = (1/n) [ Σ_{k<m} L_k + Σ_{i left} g_m(i) + (L_m - g_m(i_m)) / q_m ],

for any losses g_m that were predicted before the label (active statistical inference; g = 0 needs
no surrogate). As g_m never saw the label that it is compared with, it is cross-fitted. Fixed
weights a_m that sum to 1 keep Σ a_m θ_m unbiased, and its error is a sum of martingale differences.
"""

import numpy as np

from nevis_stream.active_testing.labelled_draws import LabelledDraws
from nevis_stream.array_types import Float

PerLabel = Float[np.ndarray, " labels"]


def step_estimates(
    evidence: LabelledDraws, predicted: PerLabel | float, remaining: PerLabel | float
) -> PerLabel:
    """Returns θ_m, float64[M].

    Args:
      evidence: labels that were drawn at random.
      predicted: g_m(i_m), float64[M] or 0.
      remaining: Σ g_m(i) over the samples that were left, float64[M] or 0.
    """
    losses = evidence.losses
    before = np.cumsum(losses) - losses
    residuals = (losses - predicted) / evidence.probabilities
    return (before + remaining + residuals) / evidence.pool.n


def lure_weights(n: int, asked: int) -> np.ndarray:
    """Returns the weights a_m of θ_m, float64[M], that make Σ a_m θ_m the LURE estimator if g = 0.

    They are n (n - M) / (M (n - m) (n - m + 1)): equal for M much smaller than n, and such that
    uniform draws give the plain mean. Derived from Farquhar et al. 2021, theorem 2.
    """
    if asked == n:
        return np.append(np.zeros(n - 1), 1.0)
    left = n - np.arange(1, asked + 1)
    return n * (n - asked) / (asked * left * (left + 1.0))
