"""New samples: the same methods on the transposed matrix, where known samples rank the models."""

import jax
import numpy as np

from nevis_stream.dynamic_evaluation.asking import Ask
from nevis_stream.dynamic_evaluation.estimates import Estimates
from nevis_stream.dynamic_evaluation.method import Method
from nevis_stream.learner import Context


def insert_samples(
    method: Method,
    known: np.ndarray,
    ask: Ask,
    samples: int,
    budget: int,
    key,
    ctx: Context | None = None,
) -> Estimates:
    """Evaluates new samples on few of the known models and predicts the others.

    Args:
      method: any method; it sees samples as rows and models as columns. Recursive sum gains nothing
        here, as hardly two models tie.
      known: uint8[m, n] of 0, 1 and 255, or scores float[m, n] with NaN.
      ask: its cells are models, int64[samples, b], to ask on each new sample.
      samples: how many new ones.
      budget: models asked of each.
      key: a JAX key.
      ctx: charges what the method computes.

    Returns: estimates of `samples` rows and m columns; `accuracy` is the mean over the models on
      the sample.

    Source: Sort & Search, section 3, insertion of samples.
    """
    fit_key, evaluate_key = jax.random.split(key)
    evaluator = method.fit(np.ascontiguousarray(known.T), None, fit_key, ctx)
    return evaluator.evaluate(ask, samples, budget, evaluate_key)
