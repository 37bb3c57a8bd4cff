"""MT: FT-d that trains on the most related earlier task beside the current one (NEVIS'22, section 5 and Appendix G)."""

from learners.parts.baseline import Baseline, from_config, neighbours
from learners.parts.initialisation import FromRelated
from learners.parts.training_data import Auxiliary


def build(config) -> Baseline:
    """Builds the learner from a resolved config."""
    return from_config(
        config,
        FromRelated(neighbours(config), "dynamic", config.select.margin),
        Auxiliary(config.auxiliary.count, config.auxiliary.which),
    )
