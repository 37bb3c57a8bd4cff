"""Half the budget on a uniform grid, then the samples that prevent most errors."""

from nevis_stream.dynamic_evaluation.acquisition import Adaptive

POLICY = Adaptive(
    "error", factors=6, about="half a uniform grid, then the samples that prevent most errors"
)
