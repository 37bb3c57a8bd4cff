"""FT-s: every task starts from the most related earlier predictor; relatedness is measured in the
feature spaces of predictors that were trained on one task alone, from random parameters (NEVIS'22,
section 5). Training these is charged to `select`."""

from learners.parts.baseline import Baseline
from learners.parts.build import baseline


def build(config) -> Baseline:
    """Builds the learner from a resolved config."""
    return baseline(config, start="related_static")
