"""Batch size and learning-rate schedule of the paper."""

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
      peak: greatest learning rate.
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
    """The schedule with peak 1 and end 0, compiled once for all trials."""
    if steps == 0:
        return np.zeros(0)
    schedule = optax.warmup_cosine_decay_schedule(
        float(warmup == 0), 1.0, warmup, steps, end_value=0.0
    )
    return np.asarray(jax.jit(schedule)(np.arange(steps)), np.float64)


def piecewise_rates(peak: float, steps: int, warmup_share: float) -> np.ndarray:
    """Returns float32[steps]: linear warm-up to `peak`, then steps down.

    A tenth of it from half of the steps on, a hundredth from 3/4 on.

    The paper names a piecewise constant schedule (Appendix H) but not its steps; these are usual.
    """
    at = np.arange(steps)
    warmup = int(warmup_share * steps)
    rising = at / max(warmup, 1)
    falling = np.where(at < 0.5 * steps, 1.0, np.where(at < 0.75 * steps, 0.1, 0.01))
    return (peak * np.where(at < warmup, rising, falling)).astype(np.float32)


SCHEDULES = {"cosine": cosine_rates, "piecewise": piecewise_rates}
