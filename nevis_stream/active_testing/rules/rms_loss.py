"""The root mean square of the loss that the surrogate expects."""

import numpy as np


def RULE(candidates) -> np.ndarray:
    """Returns sqrt(sum_y p̄(y|x) L(f(x), y)²), float64[r].

    Draws in proportion to it minimise sum_i E[L_i²] / q_i, so weighted sums of losses have the
    least variance if the surrogate is right. A sample that errs with a probability of 1% gets a
    tenth of the chance of one that surely errs, and with `expected_loss` a hundredth: this rule
    forgives a surrogate that is too sure. Source: for other estimators Sawade et al., Active Risk
    Estimation, ICML 2010, and Zrnic and Candès 2024.
    """
    return np.sqrt((candidates.mean * candidates.losses**2).sum(axis=1))
