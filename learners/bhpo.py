"""BHPO: every task on its own, its hyper-parameters chosen by Bayesian search (NEVIS'22, Appendix H)."""

from learners.parts.baseline import Baseline, from_config
from learners.parts.initialisation import FromRandom


def build(config) -> Baseline:
    """Builds the learner from a resolved config, whose search says `bayesian`."""
    return from_config(config, FromRandom())
