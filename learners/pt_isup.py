"""PT-ISup: every task starts from a backbone pre-trained with the labels of one large data set
(NEVIS'22, section 5).
"""

from learners.parts.baseline import Baseline
from learners.parts.build import baseline


def build(config) -> Baseline:
    """Builds the learner from a resolved config."""
    return baseline(config, start="pretrained")
