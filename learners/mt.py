"""MT: FT-d that trains on the most related earlier task beside the current one (NEVIS'22, section 5
and Appendix G).
"""

from learners.parts.baseline import Baseline
from learners.parts.build import baseline


def build(config) -> Baseline:
    """Builds the learner from a resolved config."""
    return baseline(config, start="related", auxiliary="related")
