"""Small pools, and every path that an active test can take on them."""

import numpy as np

from nevis_stream.active_testing.pool import Pool
from nevis_stream.active_testing.testing import EnsemblePredictions, KnownLabels, run_active_test

CLASSES = 3


def distributions(random, *shape):
    return random.dirichlet(np.ones(CLASSES), shape)


def example(n, seed, loss="cross_entropy", members=4):
    """A pool, its labels, and members of a surrogate."""
    random = np.random.default_rng(seed)
    pool = Pool.of(distributions(random, n), loss)
    return pool, random.integers(CLASSES, size=n), distributions(random, members, n)


def retrained(shape):
    """A surrogate that depends on all labels so far, in a way that no estimator may rely on."""

    def surrogate(answers):
        seed = [7, *(answers.samples[0] * CLASSES + answers.values[0]).tolist()]
        return EnsemblePredictions(distributions(np.random.default_rng(seed), *shape[:2]))

    return surrogate


class EveryPath:
    """Stands for a random generator, and takes every possible path once, with its probability."""

    def __init__(self):
        self.script = []

    def choice(self, count, p):
        if len(self.path) == len(self.script):
            options = np.flatnonzero(p)
            self.script.append([0, options])
        position, options = self.script[len(self.path)]
        self.path.append(options[position])
        self.probability *= p[options[position]]
        return options[position]

    def __iter__(self):
        while True:
            self.path, self.probability = [], 1.0
            yield self
            while self.script and self.script[-1][0] + 1 == len(self.script[-1][1]):
                self.script.pop()
            if not self.script:
                return
            self.script[-1][0] += 1


def expectation(pool, labels, surrogate, budget, value, **settings):
    """The expected value of a function of the evidence after `budget` draws, and the sum of the
    paths' probabilities, which must be 1.
    """
    mean = total = 0.0
    for path in EveryPath():
        *_, draws = run_active_test(pool, surrogate, KnownLabels(labels), budget, path, **settings)
        mean = mean + path.probability * np.asarray(value(draws))
        total += path.probability
    return mean, total
