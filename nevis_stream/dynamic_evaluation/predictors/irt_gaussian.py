"""Expected values under a two-parameter item response model, averaged with those under a
linear-Gaussian model (see `response` and `linear_gaussian`).

The item response model knows one ability; the linear-Gaussian model sees what else known models
have in common. Their errors partly cancel, the more the more models are known.
"""

import numpy as np

from nevis_stream.dynamic_evaluation.averaged_response import AveragedResponse
from nevis_stream.dynamic_evaluation.predictors.linear_gaussian import LinearGaussian


class ResponseAndGaussian(AveragedResponse):
    """Both models' cells and means, averaged."""

    def __init__(self):
        about = (
            "two-parameter item response and linear-Gaussian model, averaged by cross-validation"
        )
        super().__init__(about, share=0.25, groups=20)
        self._gaussian = LinearGaussian()

    def fit(self, known, key, ctx):
        """Fits both models."""
        return super().fit(known, key, ctx) | {"gaussian": self._gaussian.fit(known, key, ctx)}

    def other(self, tree, known, answers, ctx):
        """Returns the linear-Gaussian model's cells and their mean."""
        prediction = self._gaussian.predict(tree["gaussian"], {}, known, answers, ctx)
        cells = np.array(prediction.values, np.float64)
        np.put_along_axis(cells, answers.samples, answers.values, axis=1)
        return cells, known.facts.mean(cells)


PREDICTOR = ResponseAndGaussian()
