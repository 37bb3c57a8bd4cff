"""Cross-entropy in nats."""

import numpy as np

CLIP = 1e-20  # least probability; without it one sample could have an infinite loss


def LOSS(probabilities: np.ndarray) -> np.ndarray:
    """Returns -log f(y|x) for every class y, float64[n, c], in nats.

    Args:
      probabilities: float64[n, c], of the model. They are clipped to at least `CLIP` and divided by
        their sum, as in the ASE paper's code.
    """
    clipped = np.maximum(np.asarray(probabilities, np.float64), CLIP)
    return -np.log(clipped / clipped.sum(axis=1, keepdims=True))
