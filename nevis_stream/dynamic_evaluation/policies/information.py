"""Half the budget on a uniform grid, then the samples with most Fisher information."""

from nevis_stream.dynamic_evaluation.acquisition import Adaptive

POLICY = Adaptive(
    "information",
    factors=1,
    about="half a uniform grid, then the samples with most Fisher information",
)
