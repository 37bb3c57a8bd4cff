"""The tested model as its own surrogate."""

import numpy as np

from nevis_stream.active_testing.calibration import calibrated
from nevis_stream.active_testing.surrogate import SurrogateKind, calibration_labels
from nevis_stream.active_testing.testing import Members


class CalibratedModel(SurrogateKind):
    """One member: the tested model, at a temperature that the bought labels and the calibration
    examples support. It needs nothing else, but believes in its own mistakes.
    """

    about = "the tested model itself, calibrated; needs nothing else"
    retrained = False

    def build(self, material, seed):
        """Returns the surrogate."""
        pool = np.asarray(material.predictions)[None]

        def surrogate(answers):
            held_out = calibration_labels(material.calibration, answers, "predictions", pool)
            return Members(calibrated(pool.copy(), *held_out))

        return surrogate


SURROGATE = CalibratedModel()
