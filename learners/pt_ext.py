"""PT-ext: every task starts from a larger backbone, pre-trained on external data (NEVIS'22, section
5).
"""

from learners.parts.baseline import Baseline
from learners.parts.build import baseline


def build(config) -> Baseline:
    """Builds the learner from a resolved config."""
    return baseline(config, start="pretrained")
