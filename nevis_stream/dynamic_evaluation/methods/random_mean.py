"""The mean of samples drawn at random: no known models, no order."""

import numpy as np

from nevis_stream.dynamic_evaluation import intervals
from nevis_stream.dynamic_evaluation.method import Estimates, check_budget, generator
from nevis_stream.dynamic_evaluation.sampling import at_random


class RandomMean:
    """Plain mean with its Wilson interval, corrected for the finite number of samples."""

    name = "random_mean"
    out_of_core = True

    def fit(self, known, groups, key) -> "Drawer":
        """Keeps the number of samples; the known models say nothing here."""
        return Drawer(known.shape[1])


class Drawer:
    """Draws from n samples."""

    def __init__(self, n: int):
        self.n = n

    def evaluate(self, ask, models, budget, key) -> Estimates:
        """Asks random samples of each model; the probability of every other cell is the mean."""
        samples = at_random(self.n, check_budget(budget, self.n), models, generator(key))
        answers = ask(samples)
        mean = answers.mean(axis=1)
        interval = intervals.wilson(mean, intervals.effective(budget, self.n))
        return Estimates.of(
            np.broadcast_to(mean[:, None], (models, self.n)), samples, answers, mean, interval
        )


METHOD = RandomMean()
