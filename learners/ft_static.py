"""FT-s: every task starts from the most related earlier predictor; relatedness is measured in the feature spaces of predictors
that were trained on one task alone, from random parameters (NEVIS'22, section 5). Training these is charged to `select`."""

from learners.parts.baseline import Baseline, from_config, neighbours
from learners.parts.initialisation import FromRelated


def build(config) -> Baseline:
    """Builds the learner from a resolved config."""
    return from_config(config, FromRelated(neighbours(config), "static", config.select.margin))
