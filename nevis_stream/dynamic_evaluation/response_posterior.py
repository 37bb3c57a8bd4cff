"""What a predictor that was fitted to known models believes about new ones.

Policies read these quantities, each of which some predictors give and others do not:

  rank         the order of the samples from easy to hard, from the known models;
  items        the parameters of the samples under an item response model, from the known models;
  moments      mean and variance of each cell, given the answers so far;
  information  what asking a cell is expected to reveal about the model: the mutual information
               between its value and what is unknown of the model (of its ability, its coefficients
               or its latent variable), given the answers so far;
  reduction    the expected reduction of the variance of the model's mean by asking a cell, given
               the answers so far.
"""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import numpy as np

from nevis_stream.dynamic_evaluation.rank import Rank
from nevis_stream.dynamic_evaluation.response import Items
from nevis_stream.queries.oracle import Responses

QUANTITIES: Mapping[str, str] = {
    "rank": "an order of the samples",
    "items": "the samples' item response parameters",
    "moments": "the variance of each cell",
    "information": "what a cell reveals about the model",
    "reduction": "the reduction of the variance of the mean by each cell",
}


class ResponsePosterior:
    """Beliefs of a predictor that gives at most a rank and item response parameters; the base of
    all others. A predictor's `gives` names the quantities that may be read.

    Args:
      n: number of samples.
      rank: see above, or None.
      items: see above, or None.

    Attributes:
      representations: float32[n, d], what a network has learned about the samples, or None.
    """

    representations: np.ndarray | None = None

    def __init__(self, n: int, rank: Rank | None = None, items: Items | None = None):
        self.n, self.rank, self.items = n, rank, items

    def part(self, columns: np.ndarray) -> "ResponsePosterior":
        """Returns the beliefs about some of the samples, int64[k], as if there were no others; from
        predictors that give moments.
        """
        raise NotImplementedError

    def moments(self, answers: Responses) -> tuple[np.ndarray, np.ndarray]:
        """Returns the mean and the variance of each cell's value as if it were not asked yet,
        float32[m, n] each, given answers of m models.
        """
        raise NotImplementedError

    def information(self, answers: Responses) -> np.ndarray:
        """Returns the expected information of each cell about its model, float32[m, n] in nats."""
        raise NotImplementedError

    def reduction(self, answers: Responses) -> np.ndarray:
        """Returns the expected reduction of the variance of the model's mean by each cell,
        float32[m, n].
        """
        raise NotImplementedError


def normal_information(signal: jax.Array, noise: jax.Array) -> jax.Array:
    """Returns the information in nats of a normal observation about its normal signal: half the
    logarithm of 1 + signal / noise, both variances (Cover & Thomas, Elements of Information Theory,
    section 9.1).
    """
    return 0.5 * jnp.log1p(signal / noise)
