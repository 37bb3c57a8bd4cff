"""The method to use: item response models, their residuals and neighbours, weighted by
cross-validation.
"""

import jax

from nevis_stream.dynamic_evaluation.combination import CrossValidation, estimates
from nevis_stream.dynamic_evaluation.intervals import FEWEST
from nevis_stream.dynamic_evaluation.learners import Learners
from nevis_stream.dynamic_evaluation.method import Estimates, Evaluator, check_outcomes
from nevis_stream.dynamic_evaluation.methods.stratified_mean import StratifiedMean


class Recommended:
    """A combination of predictors with calibrated intervals."""

    name = "recommended"

    def fit(self, known, groups, key) -> Evaluator:
        """Fits all predictors to the known models, and again without each of at most five folds of
        them.

        Where there are fewer than five known models or groups, the stratified mean takes the place
        of all.
        """
        check_outcomes(known)
        if len(known if groups is None else set(groups)) < FEWEST:
            return StratifiedMean().fit(known, groups, key)
        whole, without = jax.random.split(key)
        return Combined(Learners.fit(known, whole), CrossValidation(known, groups, without))


class Combined:
    """Fitted predictors; calibrations are kept by budget."""

    def __init__(self, learners: Learners, cross_validation: CrossValidation):
        self.learners, self.cross_validation, self.calibrations = learners, cross_validation, {}

    def evaluate(self, ask, models, budget, key) -> Estimates:
        """Asks half the budget on a grid of the rank order and half where it spares most errors, of
        cells and of the accuracy.

        The key is not needed.
        """
        if budget not in self.calibrations:
            self.calibrations[budget] = self.cross_validation.calibrate(budget)
        return estimates(self.learners.look(ask, models, budget), self.calibrations[budget])


METHOD = Recommended()
