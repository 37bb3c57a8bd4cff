"""Matrices of outcomes for tests."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from nevis_stream.evaluation_cache.exchange import FileOracle


def outcomes(values=(0, 1), models=(1, 8), samples=(1, 30)):
    """A strategy of small matrices."""
    shapes = st.tuples(st.integers(*models), st.integers(*samples))
    return hnp.arrays(np.uint8, shapes, elements=st.sampled_from(values))


def one_order(models, samples, seed=0, noise=0.5):
    """Models of different ability on samples of different difficulty, uint8[models, samples]."""
    random = np.random.default_rng(seed)
    ability, difficulty = random.normal(size=models), random.normal(size=samples)
    return (
        ability[:, None] - difficulty + noise * random.normal(size=(models, samples)) > 0
    ).astype(np.uint8)


def simulated(models, samples, factors, seed=0, spread=0.4):
    """Outcomes of an item response model with easiness d, discriminations a and abilities: uint8[m,
    n], [n], [n, k], [m, k].
    """
    random = np.random.default_rng(seed)
    d = random.normal(size=samples)
    a = np.exp(spread * random.normal(size=(samples, factors))) * np.where(
        np.arange(factors) == 0, 1.2, 0
    )
    a = a + random.normal(size=a.shape) * np.where(np.arange(factors) == 0, 0, 1.5)
    ability = random.normal(size=(models, factors))
    p = 1 / (1 + np.exp(-(d + ability @ a.T)))
    return (random.random((models, samples)) < p).astype(np.uint8), d, a, ability


def file_asks(cache, table, models):
    """What answers for models out of a file, by id."""
    return {model: FileOracle(table, model, cache.samples) for model in models}
