"""BALD, the mutual information of the label and the surrogate's member."""

import numpy as np


def RULE(candidates) -> np.ndarray:
    """Returns H[mean_e p_e] - mean_e H[p_e] in nats, float64[r].

    Source: Houlsby et al. 2011; ASE paper, equation 5.
    """
    return candidates.disagreement.sum(axis=1)
