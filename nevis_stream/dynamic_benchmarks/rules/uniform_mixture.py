"""The paper's rule: uniform over what the latest model (or vote) errs on."""

import numpy as np

from nevis_stream.dynamic_benchmarks.rule import UNMISSED, PoolState


class UniformMixture:
    """Each round adds as many samples as the first one had, so the training set is a mixture with
    equal weights (Shirali et al., section 3). When the errors are used up, other samples follow.
    """

    about = "uniform over the errors of the latest model: the paper's mixture with equal weights"
    sees_labels = True

    def weights(self, candidates: PoolState) -> np.ndarray:
        """Returns the latest model's errors."""
        return np.maximum(candidates.wrong[-1], UNMISSED)


RULE = UniformMixture()
