"""Samples that most known models of an evaluation cache miss."""

import numpy as np

from nevis_stream.dynamic_benchmarks.rule import UNMISSED, PoolState


class Hardest:
    """Weights a sample by the fourth power of the share of known models that miss it."""

    about = "by how many known models of an evaluation cache miss a sample (cache=FOLDER)"
    sees_labels = False
    needs_cache = True

    def weights(self, candidates: PoolState) -> np.ndarray:
        """Returns the shares to the fourth power."""
        return np.maximum(candidates.missed**4, UNMISSED)


RULE = Hardest()
