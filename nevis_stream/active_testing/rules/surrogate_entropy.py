"""The entropy of the surrogate's mean."""

import numpy as np

from nevis_stream.active_testing.candidates import entropy


def RULE(candidates) -> np.ndarray:
    """Returns -sum_y p̄(y|x) log p̄(y|x) in nats, float64[r]."""
    return entropy(candidates.mean)
