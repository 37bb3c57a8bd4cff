"""FT-prev: every task starts from the predictor of the task before it, with a new head (NEVIS'22,
section 5).
"""

from learners.parts.baseline import Baseline
from learners.parts.build import baseline


def build(config) -> Baseline:
    """Builds the learner from a resolved config."""
    return baseline(config, start="previous")
