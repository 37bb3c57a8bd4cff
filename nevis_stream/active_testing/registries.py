"""The acquisition rules and estimators, by name: a new one is a new file. Losses are in `pool`."""

from nevis_stream.active_testing import estimators, rules
from nevis_stream.dynamic_evaluation.registry import scanned

RULES = scanned(rules, "RULE")
ESTIMATORS = scanned(estimators, "ESTIMATOR")
