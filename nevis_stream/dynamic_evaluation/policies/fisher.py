"""Adaptive testing: one after the other the samples with the most Fisher information at the model's
estimated ability (Lord 1980; Fluid Benchmarking, Hofmann et al. 2025).

The published method estimates the ability by its posterior mode and reports it; here the ability is
the posterior mean, and the predictor turns it into the mean over all samples.
"""

import numpy as np

from nevis_stream.dynamic_evaluation import response
from nevis_stream.dynamic_evaluation.sequential import Sequential


def information(items: response.Items, evidence: response.PaddedAnswers):
    """Returns the Fisher information of each outcome, float32[m, n]: tr(a aᵀ V) p (1 - p), with V
    the posterior covariance of the ability, which only matters for several factors.

    Args:
      items: of n samples.
      evidence: of m models.
    """
    import jax

    abilities = response.infer(items, evidence)
    mean, ability, _ = response.logits(items, abilities)
    p = jax.nn.sigmoid(mean)
    return ability * p * (1 - p)


def useful(beliefs, answers, ctx) -> np.ndarray:
    """Returns the information of each cell, float32[m, n]."""
    evidence = response.PaddedAnswers.of(answers, answers.samples.shape[1])
    return np.asarray(ctx.jit(information)(beliefs.items, evidence))


POLICY = Sequential(
    useful,
    "items",
    "one after the other the samples with most Fisher information at the estimated ability",
)
