"""Indep: every task from random parameters, nothing carried over (NEVIS'22, section 5)."""

from learners.parts.baseline import Baseline, from_config
from learners.parts.initialisation import FromRandom


def build(config) -> Baseline:
    """Builds the learner from a resolved config."""
    return from_config(config, FromRandom())
