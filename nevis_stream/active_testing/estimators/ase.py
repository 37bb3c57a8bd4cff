"""ASE, the active surrogate estimator: the surrogate's expected loss of every sample."""

from nevis_stream.active_testing.estimator import Estimator
from nevis_stream.dynamic_evaluation.asking import Estimate


class Ase(Estimator):
    """The mean over the pool of the loss that the latest surrogate expects.

    Labels enter only through the surrogate, also those of asked samples, so it works with samples
    that were chosen, and without any label. Source: ASE paper, equation 4.
    """

    about = "the loss that the surrogate expects, over the whole pool; biased, of small variance"
    no_interval = (
        "ase has no interval: its error is the surrogate's bias, which its own spread does not"
        " show; difference has one"
    )

    def __call__(self, evidence):
        """Returns the estimate; it has no interval."""
        value = float(evidence.expected.mean())
        asked = evidence.asked - evidence.failed
        return Estimate(
            value,
            reason=self.no_interval,
            asked=asked,
            cost=evidence.cost,
            failed=evidence.failed,
        )


ESTIMATOR = Ase()
