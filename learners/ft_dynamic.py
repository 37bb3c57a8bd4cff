"""FT-d: every task starts from the most related earlier predictor, as fine-tuned so far (NEVIS'22,
section 5).
"""

from learners.parts.baseline import Baseline
from learners.parts.build import baseline


def build(config) -> Baseline:
    """Builds the learner from a resolved config."""
    return baseline(config, start="related")
