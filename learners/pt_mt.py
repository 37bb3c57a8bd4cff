"""PT-MT: every task starts from a backbone pre-trained on all tasks of the meta-train stream at
once (NEVIS'22, section 5).
"""

from learners.parts.baseline import Baseline
from learners.parts.build import baseline


def build(config) -> Baseline:
    """Builds the learner from a resolved config."""
    return baseline(config, start="pretrained")
