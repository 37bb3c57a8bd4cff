"""The control: random samples, so that the stream is a static one in growing parts."""

import numpy as np

from nevis_stream.dynamic_benchmarks.rule import PoolState


class RandomSamples:
    """Gives every sample the same weight."""

    about = "every sample alike: a static stream at equal labels, the control"
    sees_labels = False

    def weights(self, candidates: PoolState) -> np.ndarray:
        """Returns ones."""
        return np.ones(len(candidates))


RULE = RandomSamples()
