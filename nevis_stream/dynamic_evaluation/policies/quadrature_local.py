"""Half of the budget by Bayesian quadrature, the rest chosen anew for each model."""

from nevis_stream.dynamic_evaluation.policies.quadrature import Quadrature

POLICY = Quadrature(
    0.5, "as quadrature, but half of the budget is chosen anew after the first answers"
)
