"""Batch sizes and learning-rate schedules of the paper."""

import math

import jax
import numpy as np
import optax

from nevis_stream.cost.counted import made_once

FINAL_RATE = 1e-8


def batch_size(examples: int, largest: int = 512, share: float = 0.0025) -> int:
    """Returns b = min(B, max(16, 2^floor(log2(p·D)))) (NEVIS'22, eq. 4).

    Args:
      examples: D, the number of training examples.
      largest: B.
      share: p.
    """
    return min(largest, max(16, 2 ** math.floor(math.log2(max(1.0, share * examples)))))


def cosine_rates(peak: float, steps: int, warmup_share: float) -> np.ndarray:
    """Returns float32[steps]: linear warm-up from 0 to `peak`, then a cosine down to 1e-8.

    Source: NEVIS'22, section 4.

    Args:
      peak: largest learning rate.
      steps: number of updates.
      warmup_share: share of the updates spent warming up, in [0, 1).
    """
    warmup = int(warmup_share * steps)
    shape = _shape(steps, warmup)
    rising = np.arange(steps) < warmup
    return np.where(rising, peak * shape, FINAL_RATE + (peak - FINAL_RATE) * shape).astype(
        np.float32
    )


@made_once
def _shape(steps: int, warmup: int) -> np.ndarray:
    """Returns the schedule with peak 1 and end 0, which is compiled once for all trials."""
    if steps == 0:
        return np.zeros(0)
    schedule = optax.warmup_cosine_decay_schedule(
        float(warmup == 0), 1.0, warmup, steps, end_value=0.0
    )
    return np.asarray(jax.jit(schedule)(np.arange(steps)), np.float64)


def piecewise_rates(peak: float, steps: int, warmup_share: float) -> np.ndarray:
    """Returns float32[steps]: linear warm-up to `peak`, then a piecewise constant rate.

    It drops to a tenth of the peak after half of the steps and to a hundredth after 3/4.

    The paper mentions a piecewise constant schedule (Appendix H) without its values; these are
    common ones.
    """
    step = np.arange(steps)
    warmup = int(warmup_share * steps)
    rising = step / max(warmup, 1)
    falling = np.where(step < 0.5 * steps, 1.0, np.where(step < 0.75 * steps, 0.1, 0.01))
    return (peak * np.where(step < warmup, rising, falling)).astype(np.float32)


SCHEDULES = {"cosine": cosine_rates, "piecewise": piecewise_rates}
