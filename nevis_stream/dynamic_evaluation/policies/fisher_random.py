"""Adaptive testing that exposes more samples: drawn from the five with the most Fisher information
(ATLAS, Li et al. 2025).

The published method calibrates a three-parameter model and stops at a standard error; here the item
response model is the predictor's, and the budget is given.
"""

from nevis_stream.dynamic_evaluation.policies.fisher import useful
from nevis_stream.dynamic_evaluation.sequential import Sequential

POLICY = Sequential(
    useful,
    "items",
    "one after the other, drawn from the five samples with the most Fisher information",
    exposed=5,
)
