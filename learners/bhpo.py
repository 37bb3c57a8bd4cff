"""BHPO: every task on its own, its hyper-parameters chosen by Bayesian search (NEVIS'22, Appendix
H).
"""

from learners.parts.baseline import Baseline
from learners.parts.build import baseline


def build(config) -> Baseline:
    """Builds the learner from a resolved config."""
    return baseline(config, start="random")
