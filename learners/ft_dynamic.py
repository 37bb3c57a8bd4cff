"""FT-d: every task starts from the most related earlier predictor, as fine-tuned so far (NEVIS'22, section 5)."""

from learners.parts.baseline import Baseline, from_config, neighbours
from learners.parts.initialisation import FromRelated


def build(config) -> Baseline:
    """Builds the learner from a resolved config."""
    return from_config(config, FromRelated(neighbours(config), "dynamic", config.select.margin))
