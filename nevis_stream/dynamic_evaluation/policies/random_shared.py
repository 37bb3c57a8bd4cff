"""Samples drawn at random without replacement, the same for each model."""

from nevis_stream.dynamic_evaluation.policies.random import Random

POLICY = Random(shared=True)
