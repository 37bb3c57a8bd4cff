"""The loss that the surrogate expects."""

import numpy as np


def RULE(candidates) -> np.ndarray:
    """Returns sum_y p̄(y|x) |L(f(x), y)|, float64[r].

    If the surrogate is the tested model itself (one member), this is the self-surrogate variant.
    Source: Active Testing, section 4; ASE paper, equation 3.
    """
    return (candidates.mean * abs(candidates.losses)).sum(axis=1)
