"""PT + FT-d: as FT-d, with a pre-trained backbone as one more candidate (NEVIS'22, section 5)."""

from learners.parts.baseline import Baseline
from learners.parts.build import baseline


def build(config) -> Baseline:
    """Builds the learner from a resolved config."""
    return baseline(config, start="pretrained_or_related")
