"""FT-prev: every task starts from the predictor of the task before it, with a new head (NEVIS'22, section 5)."""

from learners.parts.baseline import Baseline, from_config
from learners.parts.initialisation import FromPrevious


def build(config) -> Baseline:
    """Builds the learner from a resolved config."""
    return from_config(config, FromPrevious())
