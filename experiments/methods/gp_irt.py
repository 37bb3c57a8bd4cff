"""gp-IRT: an item response model's mean, averaged with the weighted mean of the asked samples."""

import numpy as np

from nevis_stream.cost.compute import Compute
from nevis_stream.dynamic_evaluation.predictors.item_response import AveragedResponse
from nevis_stream.dynamic_evaluation.predictors.mean import compute_mean_weights
from nevis_stream.queries.matrix import Matrix
from nevis_stream.queries.oracle import Responses
from nevis_stream.storage.checkpoint import Tree


class GeneralizedItemResponse(AveragedResponse):
    """The two-parameter model's cells; their mean and the weighted mean of the asked samples,
    averaged (gp-IRT of Maia Polo et al., tinyBenchmarks, 2024, section 3.2).

    The paper's item response model has several dimensions; here it has one, as `irt_2pl`. The paper
    sets the weight of the two by approximations of the bias of the one and the variance of the
    other; here cross-validation on the known models does.
    """

    def __init__(self) -> None:
        about = "item response model and weighted mean, averaged by cross-validation"
        super().__init__(about, weight=0.5, groups=5)

    def estimate_other(
        self, tree: Tree, known: Matrix, answers: Responses, ctx: Compute
    ) -> tuple[np.ndarray | None, np.ndarray]:
        """Returns the weighted mean."""
        return None, (compute_mean_weights(answers, known.facts) * answers.values).sum(axis=1)
