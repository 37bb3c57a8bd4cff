"""Factorized Active Querying with its published settings, to compare our estimates with.

Source: Wu, Nair and Candès 2026, arXiv 2601.20251, from its text. Known outcomes are explained as
σ(u · v) without intercepts; a new model's u is normal, with mean and covariance of the known ones,
and is updated after each answer. Samples are drawn with replacement, with probabilities that mix
√(p (1 - p)) to a power with equal ones (as chosen in the paper on fully observed models, where the
part that is active about u has the weight 0). The mean is that of all steps' difference estimates.
The number of factors and the weight decay are chosen on held-out outcomes, as in the paper: 64 and
.1, its choice for thousands of known models, explain those of tens of them by heart.
"""

import itertools

import numpy as np
from scipy.special import expit
from scipy.stats import norm

FACTORS, DECAYS, RATE, EPOCHS = (4, 16, 64), (0.1, 1.0, 3.0), 0.01, 2000
HELD_OUT, CHOICE_SAMPLES = 0.2, 2000  # the setting is chosen on at most so many samples
POWER, EQUAL = 0.75, 0.25  # β₀ and τ


def fit(known: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the known models' and the samples' factors, float32[m, k] and float32[n, k], with the
    number of factors and the weight decay of the least cross-entropy on held-out outcomes.

    Args:
      known: uint8[m, n] of 0, 1 and 255.
      seed: of the starting values and of what is held out.
    """
    random, n = np.random.default_rng([seed, 1]), known.shape[1]
    part = known[:, random.permutation(n)[:CHOICE_SAMPLES]]
    held_out = (random.random(part.shape) < HELD_OUT) & (part <= 1)
    rest = np.where(held_out, 255, part).astype(np.uint8)

    def loss(setting: tuple[int, float]) -> float:
        models, samples = factorize(rest, *setting, seed)
        logits = (models @ samples.T)[held_out]
        return float(np.logaddexp(0, np.where(part[held_out] == 1, -logits, logits)).mean())

    return factorize(known, *min(itertools.product(FACTORS, DECAYS), key=loss), seed)


def factorize(
    known: np.ndarray, factors: int, decay: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the factors by AdamW on the cross-entropy; see `fit`."""
    random, mask = np.random.default_rng(seed), known <= 1
    target = np.where(mask, known, 0).astype(np.float32)
    scale = mask / np.float32(mask.sum())
    both = [
        random.normal(size=(side, factors)).astype(np.float32) / factors**0.5
        for side in known.shape
    ]
    moments = [(np.zeros_like(each), np.zeros_like(each)) for each in both]
    for epoch in range(1, EPOCHS + 1):
        away = (expit(both[0] @ both[1].T) - target) * scale
        for side, gradient in enumerate((away @ both[1], away.T @ both[0])):
            first, second = moments[side]
            first += 0.1 * (gradient - first)
            second += 0.001 * (gradient**2 - second)
            step = first / (1 - 0.9**epoch) / (np.sqrt(second / (1 - 0.999**epoch)) + 1e-8)
            both[side] -= RATE * (step + decay * both[side])
    return both[0], both[1]


def evaluate(
    factors: tuple[np.ndarray, np.ndarray], truth: np.ndarray, budget: int, seed: int
) -> tuple[float, float, float]:
    """Returns the mean of one new model, and its 95% interval: value, low, high.

    Args:
      factors: as `fit` returns them.
      truth: uint8[n], of which `budget` draws are seen.
      budget: number of draws.
      seed: of the draws.
    """
    known, samples = (each.astype(np.float64) for each in factors)
    random, n = np.random.default_rng(seed), len(truth)
    u, covariance = known.mean(axis=0), np.cov(known.T)
    corrections, means, raw = np.empty((3, budget))
    for step in range(budget):
        p = expit(samples @ u)
        spread = (p * (1 - p)) ** (POWER / 2)
        q = (1 - EQUAL) * spread / spread.sum() + EQUAL / n
        j = random.choice(n, p=q / q.sum())
        z, v, weight = float(truth[j]), samples[j], p[j] * (1 - p[j])
        corrections[step], means[step] = (z - p[j]) / q[j] / n, p.mean()
        raw[step] = z / q[j] / n
        towards = covariance @ v
        covariance -= weight * np.outer(towards, towards) / (1 + weight * v @ towards)
        u = u + covariance @ v * (z - p[j])
    value = float((means + corrections).mean())
    variance = (corrections**2).mean() - ((raw.mean() - means) ** 2).mean()
    half = float(norm.ppf(0.975) * np.sqrt(max(variance, 0) / budget))
    return value, value - half, value + half
