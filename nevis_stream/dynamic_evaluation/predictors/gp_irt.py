"""A weighted mean of the asked samples, averaged with an item response model's (gp-IRT of Maia Polo
et al., tinyBenchmarks, 2024, section 3.2).

The paper's item response model has several dimensions; here it has one, as `irt_2pl`. The paper
sets the share of the two by approximations of the bias of the one and the variance of the
other; here cross-validation on the known models does.
"""

from nevis_stream.dynamic_evaluation.averaged_response import AveragedResponse
from nevis_stream.dynamic_evaluation.predictors.mean import represented


class GeneralizedItemResponse(AveragedResponse):
    """The two-parameter model's cells; their mean and that of the asked samples, averaged."""

    def __init__(self):
        about = "item response model and weighted mean, averaged by cross-validation"
        super().__init__(about, share=0.5, groups=5)

    def other(self, tree, known, answers, ctx):
        """Returns the weighted mean."""
        return None, (represented(answers, known.facts) * answers.values).sum(axis=1)


PREDICTOR = GeneralizedItemResponse()
