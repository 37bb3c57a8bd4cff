"""Trained models as surrogates, which are not trained again: bought labels change only their
temperature.
"""

import numpy as np

from nevis_stream.active_testing.surrogate import (
    SurrogateBuilder,
    SurrogateData,
    calibrate,
    calibration_labels,
)
from nevis_stream.active_testing.testing import EnsemblePredictions, Surrogate
from nevis_stream.queries.oracle import Responses


class CalibratedModel(SurrogateBuilder):
    """One member: the tested model, at a temperature that the bought labels and the calibration
    examples support. It needs nothing else, but believes in its own mistakes.
    """

    about = "the tested model itself, calibrated; needs nothing else"
    retrained = False

    def build(self, data: SurrogateData, seed: int) -> Surrogate:
        """Returns the surrogate."""
        pool = np.asarray(data.predictions)[None]

        def surrogate(answers: Responses) -> EnsemblePredictions:
            held_out = calibration_labels(data.calibration, answers, "predictions", pool)
            return EnsemblePredictions(calibrate(pool.copy(), *held_out))

        return surrogate


class Ensemble(SurrogateBuilder):
    """Other models of the same task: trials that a run kept, checkpoints, other seeds.

    It is not trained again; the bought labels only change its temperature. Source: the fixed deep
    ensembles of the ASE paper, section 7.3.
    """

    about = "models that a run already holds (keep=all, seeds), calibrated; not retrained"
    needs = ("ensemble",)
    retrained = False

    def build(self, data: SurrogateData, seed: int) -> Surrogate:
        """Returns the surrogate."""
        pool = np.asarray(data.ensemble)

        def surrogate(answers: Responses) -> EnsemblePredictions:
            held_out = calibration_labels(data.calibration, answers, "ensemble", pool)
            return EnsemblePredictions(calibrate(pool.copy(), *held_out))

        return surrogate
