"""XWED, expected weighted disagreement."""

import numpy as np


def RULE(candidates) -> np.ndarray:
    """Returns the disagreement of the members on each class, weighted by the loss that the model
    would have, float64[r].

    With a constant loss k it is k times BALD. Losses of compared models count by their size.
    Source: ASE paper, equation 6.
    """
    return (abs(candidates.losses) * candidates.disagreement).sum(axis=1)
