"""Search as one JAX program over models and budgets at once, for accelerators; `search` is the same in NumPy.

On a CPU NumPy is faster (docs/decisions/0023); nothing here is needed there.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from nevis_stream.dynamic_evaluation import sampling
from nevis_stream.dynamic_evaluation.sort import Rank


def error_curve(rank: Rank, ordered: np.ndarray, budgets: Sequence[int]) -> tuple[jax.Array, jax.Array]:
    """Runs Sort & Search with a uniform grid at every budget on models whose truth is known, observed outcomes kept.

    Args:
      rank: the samples' order.
      ordered: uint8[m, n] of 0 and 1, columns in the rank's order.
      budgets: k numbers of samples, each at most n.

    Returns: the thresholds, int32[m, k], and the shares of wrong cells, float32[m, k].
    """
    grids = [sampling.centres(ordered.shape[1], budget) for budget in budgets]
    positions = np.zeros((len(grids), max(budgets)), np.int32)
    for row, grid in zip(positions, grids, strict=True):
        row[: len(grid)] = grid
    expected = jnp.asarray(rank.expected(np.arange(rank.n + 1)), jnp.int32)
    return _error_curve(jnp.asarray(ordered), expected, jnp.asarray(positions), jnp.asarray(budgets, jnp.int32))


@jax.jit
def _error_curve(ordered, expected, positions, budgets):
    """As `error_curve`; expected int32[n + 1], positions int32[k, b], padded behind each budget."""
    n = ordered.shape[1]
    ones = jnp.cumsum(ordered, axis=1, dtype=jnp.int32)
    until = jnp.pad(ones, ((0, 0), (1, 0)))

    def of_one_budget(places, budget):
        asked = ordered[:, places]
        there = jnp.arange(len(places)) < budget

        first, last = optima(asked, there)
        low = jnp.where(first == 0, 0, places[jnp.maximum(first - 1, 0)] + 1)
        high = jnp.where(last == budget, n, places[jnp.minimum(last, budget - 1)])
        low, high = jnp.where(first == budget, n, low), jnp.where(last == 0, 0, high)
        wanted = jnp.where(low == 0, 0, expected[jnp.maximum(low - 1, 0)]) + expected[high]
        cuts = jnp.clip(jnp.searchsorted(expected, (wanted + 1) // 2), low, high)
        wrong = ones[:, -1] + cuts - 2 * jnp.take_along_axis(until, cuts[:, None], axis=1)[:, 0]
        kept = (((places < cuts[:, None]) != asked) & there).sum(axis=1)
        return cuts, (wrong - kept) / n

    cuts, errors = jax.lax.map(lambda one: of_one_budget(*one), (positions, budgets))
    return cuts.T, errors.T.astype(jnp.float32)


def optima(outcomes: jax.Array, there: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns the first and the last best number of leading ones, int32[m] each, as `search.optima`.

    Args:
      outcomes: uint8[m, b] of 0, 1 and 255.
      there: bool[b], true up to some place: behind it no threshold is tried.
    """
    steps = jnp.where(there, (outcomes == 1).astype(jnp.int32) - (outcomes == 0), 0)
    prefix = jnp.pad(jnp.cumsum(steps, axis=1), ((0, 0), (1, 0)))
    prefix = jnp.where(jnp.pad(there, (1, 0), constant_values=True), prefix, -prefix.shape[1])
    return prefix.argmax(axis=1), prefix.shape[1] - 1 - prefix[:, ::-1].argmax(axis=1)
