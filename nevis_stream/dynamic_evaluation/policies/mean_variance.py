"""One after the other the samples that reduce the variance of the mean most, as the predictor
believes (Bayesian quadrature, O'Hagan 1991).

`quadrature` and `quadrature_local` do so with a linear-Gaussian model of their own.
"""

from nevis_stream.dynamic_evaluation.sequential import Sequential

POLICY = Sequential(
    lambda beliefs, answers, ctx: beliefs.reduction(answers),
    "reduction",
    "one after the other the samples that reduce the variance of the mean most",
)
