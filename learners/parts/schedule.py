"""Batch size and learning-rate schedule of the paper."""

import math

import numpy as np
import optax

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
    """Returns float32[steps]: linear warm-up from 0 to `peak`, then a cosine down to 1e-8 (NEVIS'22, section 4).

    Args:
      peak: greatest learning rate.
      steps: number of updates.
      warmup_share: share of the updates spent warming up, in [0, 1).
    """
    warmup = int(warmup_share * steps)
    schedule = optax.warmup_cosine_decay_schedule(
        init_value=0.0 if warmup else peak, peak_value=peak, warmup_steps=warmup, decay_steps=steps, end_value=FINAL_RATE
    )
    return np.asarray(schedule(np.arange(steps)), np.float32)
