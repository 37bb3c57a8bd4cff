"""Temperature scaling of an ensemble.

Source: Guo et al., On Calibration of Modern Neural Networks, ICML 2017.
"""

import numpy as np
from scipy.optimize import minimize_scalar

from nevis_stream.array_types import Float, Int

LEAST = 1e-12  # probability; below it, a logarithm says nothing
_RANGE = np.log(20)  # temperatures from 1/20 to 20
_BLOCK = 16384  # samples


def temper(
    members: Float[np.ndarray, "*members samples classes"], temperature: float
) -> Float[np.ndarray, "*members samples classes"]:
    """Returns probabilities [..., n, c] in proportion to p^(1/T), of the dtype of `members`."""
    if temperature == 1:
        return members
    logits = np.log(np.maximum(members, LEAST)) / temperature
    logits -= logits.max(axis=-1, keepdims=True)
    powers = np.exp(logits, out=logits)
    powers /= powers.sum(axis=-1, keepdims=True)
    return powers.astype(members.dtype, copy=False)


def temperature(
    members: Float[np.ndarray, "members samples classes"], labels: Int[np.ndarray, " labels"]
) -> float:
    """Returns the temperature at which the members' mean has the least cross-entropy.

    A penalty of half the squared logarithm keeps it near 1 for few labels.

    Args:
      members: float[e, k, c].
      labels: int[k]; without any the temperature is 1.
    """
    if not len(labels):
        return 1.0
    members = np.asarray(members, np.float64)
    rows = np.arange(len(labels))

    def loss(logarithm: float) -> float:
        mean = temper(members, np.exp(logarithm)).mean(axis=0)
        likelihood = np.log(np.maximum(mean[rows, labels], LEAST)).sum()
        return logarithm**2 / 2 - likelihood

    best = minimize_scalar(loss, bounds=(-_RANGE, _RANGE), method="bounded")
    return float(np.exp(best.x))


def calibrate(
    members: Float[np.ndarray, "members pool classes"],
    held_out: Float[np.ndarray, "others samples classes"],
    labels: Int[np.ndarray, " labels"],
) -> Float[np.ndarray, "members pool classes"]:
    """Returns members [e, n, c] at the temperature that fits held-out ones.

    Args:
      members: [e, n, c]; it is overwritten.
      held_out: [e, k, c], of samples on which the members were not trained.
      labels: int[k].
    """
    best = temperature(held_out, labels)
    for start in range(0, members.shape[1], _BLOCK):
        members[:, start : start + _BLOCK] = temper(members[:, start : start + _BLOCK], best)
    return members
