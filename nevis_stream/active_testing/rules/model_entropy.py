"""The tested model's own entropy, which needs no surrogate."""

import numpy as np

from nevis_stream.active_testing.candidates import entropy


def RULE(candidates) -> np.ndarray:
    """Returns -sum_y f(y|x) log f(y|x) in nats, float64[r]."""
    return entropy(candidates.predictions)
