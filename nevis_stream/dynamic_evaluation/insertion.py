"""New samples: the same methods on the transposed matrix, where known samples rank the models."""

import numpy as np

from nevis_stream.dynamic_evaluation.method import Ask, Estimates, Method


def insert_samples(
    method: Method, known: np.ndarray, ask: Ask, samples: int, budget: int, key
) -> Estimates:
    """Evaluates new samples on few of the known models and predicts the others.

    Args:
      method: any method; it sees samples as rows and models as columns. Recursive sum gains nothing
        here, as hardly two models
      tie.
      known: uint8[m, n] of 0, 1 and 255.
      ask: int64[samples, budget], models for each new sample -> uint8[samples, budget], whether
        these are right on it.
      samples: how many new ones.
      budget: models asked of each.
      key: a JAX key.

    Returns: estimates of `samples` rows and m columns; `accuracy` is the share of models that are
      right on the sample.

    Source: Sort & Search, section 3, insertion of samples.
    """
    import jax

    fit_key, evaluate_key = jax.random.split(key)
    evaluator = method.fit(np.ascontiguousarray(known.T), None, fit_key)
    return evaluator.evaluate(ask, samples, budget, evaluate_key)
