"""Search as one JAX program over models and budgets at once, for accelerators; `search` is the same
in NumPy.

On a CPU NumPy is faster (docs/decisions/0023); nothing here is needed there.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from nevis_stream.dynamic_evaluation import sampling
from nevis_stream.dynamic_evaluation.sort import Rank


def error_curve(
    rank: Rank, ordered: np.ndarray, budgets: Sequence[int]
) -> tuple[jax.Array, jax.Array]:
    """Runs Sort & Search with a uniform grid at every budget on models whose truth is known,
    observed outcomes kept.

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
    return _error_curve(
        jnp.asarray(ordered), expected, jnp.asarray(positions), jnp.asarray(budgets, jnp.int32)
    )


@jax.jit
def _error_curve(ordered, expected, positions, budgets):
    """As `error_curve`; expected int32[n + 1], positions int32[k, b], padded behind each budget."""
    n = ordered.shape[1]
    ones = jnp.cumsum(ordered, axis=1, dtype=jnp.int32)
    until = jnp.pad(ones, ((0, 0), (1, 0)))

    def of_one_budget(places, budget):
        asked = ordered[:, places]
        there = jnp.arange(len(places)) < budget

        optimal = optima(asked, there)
        first, last = optimal.argmax(axis=1), optimal.shape[1] - 1 - optimal[:, ::-1].argmax(axis=1)
        counts = jnp.arange(len(places) + 1)
        low, high = (
            jnp.pad(places + 1, (1, 0)),
            jnp.where(counts < budget, jnp.pad(places, (0, 1)), n),
        )
        low = jnp.where((counts == budget) & (first == budget)[:, None], n, low)
        high = jnp.where((counts == 0) & (last == 0)[:, None], 0, high)
        rows = jnp.arange(len(asked))
        least, most = low[rows, first], high[rows, last]
        wanted = jnp.where(least == 0, 0, expected[jnp.maximum(least - 1, 0)]) + expected[most]
        middle = jnp.clip(jnp.searchsorted(expected, (wanted + 1) // 2), least, most)[:, None]
        away = jnp.where(optimal, jnp.maximum(jnp.maximum(low - middle, middle - high), 0), n + 1)
        nearest = away.argmin(axis=1)
        cuts = jnp.clip(middle[:, 0], low[rows, nearest], high[rows, nearest])
        wrong = ones[:, -1] + cuts - 2 * jnp.take_along_axis(until, cuts[:, None], axis=1)[:, 0]
        kept = (((places < cuts[:, None]) != asked) & there).sum(axis=1)
        return cuts, (wrong - kept) / n

    cuts, errors = jax.lax.map(lambda one: of_one_budget(*one), (positions, budgets))
    return cuts.T, errors.T.astype(jnp.float32)


def optima(outcomes: jax.Array, there: jax.Array) -> jax.Array:
    """Returns which numbers of leading ones have the fewest errors, bool[m, b + 1].

    Args:
      outcomes: uint8[m, b] of 0, 1 and 255.
      there: bool[b], true up to some place: behind it no threshold is tried.
    """
    steps = jnp.where(there, (outcomes == 1).astype(jnp.int32) - (outcomes == 0), 0)
    prefix = jnp.pad(jnp.cumsum(steps, axis=1), ((0, 0), (1, 0)))
    prefix = jnp.where(jnp.pad(there, (1, 0), constant_values=True), prefix, -prefix.shape[1])
    return prefix == prefix.max(axis=1, keepdims=True)
