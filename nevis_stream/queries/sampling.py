"""Chooses positions of a ranked list to ask.

Positions are int64, ascending, 0-based. All schemes cover the whole list, also if the number of
positions does not divide its length.
"""

import numpy as np

from nevis_stream.errors import BadInput


def numpy_generator(key) -> np.random.Generator:
    """Returns NumPy's generator for a JAX key: the same key gives the same numbers on every
    machine.
    """
    import jax

    if key is None:
        raise BadInput("samples are drawn at random: give a key, for example jax.random.key(0).")
    return np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())


def strata(n: int, budget: int) -> np.ndarray:
    """Returns the bounds of `budget` strata of n positions, int64[budget + 1]; their sizes differ
    by at most one.
    """
    return np.arange(budget + 1, dtype=np.int64) * n // budget


def centres(n: int, budget: int) -> np.ndarray:
    """Returns the uniform grid: the centres (j + 1/2) n / budget of equal strata, int64[budget].

    The published listing drops its first point if n is a multiple of the budget, and the published
    script leaves out the remainder of the division at the easy end (reference: sort_and_search.csv,
    erratum `uniform_sampling_count`).
    """
    return (2 * np.arange(budget, dtype=np.int64) + 1) * n // (2 * budget)


def in_strata(sizes: np.ndarray, models: int, random: np.random.Generator) -> np.ndarray:
    """Returns one random position from each of k strata of these sizes, int64[k], that follow each
    other, drawn for each model: int64[models, k].
    """
    return np.cumsum(sizes) - sizes + random.integers(sizes, size=(models, len(sizes)))


def at_random(n: int, budget: int, models: int, random: np.random.Generator) -> np.ndarray:
    """Returns `budget` of n positions without replacement, drawn for each model, ascending:
    int64[models, budget].
    """
    drawn = [random.choice(n, budget, replace=False, shuffle=False) for _ in range(models)]
    return np.sort(np.asarray(drawn, np.int64).reshape(models, budget), axis=1)
