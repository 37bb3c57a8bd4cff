"""The predictors that `recommended` combines: all fitted to the known models, all shown the same
observed outcomes.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from nevis_stream.dynamic_evaluation import neighbours, response
from nevis_stream.dynamic_evaluation.acquisition import Asked, acquire
from nevis_stream.dynamic_evaluation.method import generator
from nevis_stream.dynamic_evaluation.sort import sort

NAMES = (
    "2PL",
    "multidimensional",
    "2PL and residuals",
    "multidimensional and residuals",
    "near",
    "nearer",
)
FACTORS = 6
# prior standard deviation of a residual's weight beside the 2PL and multidimensional model
RESIDUAL_SCALES = (0.5, 0.25)
TEMPERATURES = (10.0, 3.0)
MODELS = 512  # known models that are fitted, drawn at random if there are more


@dataclass(frozen=True)
class Views:
    """What the predictors say of m models on n samples after having seen the same outcomes.

    Args:
      asked: what was observed.
      logits: float32[6, m, n], by `NAMES`.
      deviation: float64[m], posterior standard deviation of the accuracy, of the multidimensional
        model.
    """

    asked: Asked
    logits: np.ndarray
    deviation: np.ndarray


@dataclass(frozen=True)
class Learners:
    """Predictors fitted to known models on n samples.

    Args:
      order: int64[n], samples from easy to hard.
      two: the two-parameter model.
      many: the multidimensional one.
      leftover: float32[n, q] each, residuals of known models under `two` and `many`.
      rows: float32[m0, n], known models' smoothed outcomes.
    """

    order: np.ndarray
    two: response.Items
    many: response.Items
    leftover: tuple[jax.Array, jax.Array]
    rows: jax.Array

    @classmethod
    def fit(cls, known: np.ndarray, key) -> "Learners":
        """Fits all predictors.

        Args:
          known: uint8[m0, n]; of more than 512 models as many are drawn at random, but the order is
            that of all.
          key: a JAX key.
        """
        order = sort(known).order
        if len(known) > MODELS:
            known = known[np.sort(generator(key).choice(len(known), MODELS, replace=False))]
        two, ability = response.fit(known, 1, key)
        many, abilities = response.fit(known, FACTORS, key)
        leftover = (
            neighbours.residuals(known, two, ability),
            neighbours.residuals(known, many, abilities),
        )
        return cls(order, two, many, leftover, neighbours.smoothed(known, many, abilities))

    def look(self, ask, models: int, budget: int) -> Views:
        """Asks `budget` samples of each of m new models and predicts the others."""
        asked = acquire(ask, models, budget, self.order, self.many, "error")
        observed = response.Observed.of(asked.samples, asked.outcomes, budget)
        logits, deviation = _views(self.two, self.many, self.leftover, self.rows, observed)
        return Views(asked, np.asarray(logits), np.asarray(deviation, np.float64))


@jax.jit
def _views(two, many, leftover, rows, observed):
    plain, _ = response.predict(two, observed)
    made, deviation = response.predict(many, observed)
    made = [plain, made]
    for items, left, scale in zip((two, many), leftover, RESIDUAL_SCALES, strict=True):
        features = jnp.concatenate([items.mean[:, 1:], scale * left], axis=1)
        made.append(neighbours.regress(features, items.mean[:, 0], observed))
    made += [neighbours.nearest(rows, observed, temperature) for temperature in TEMPERATURES]
    return jnp.stack(made), deviation
