"""Empirical rollouts of the dynamic benchmarks of `experiments.theory.designs`: what minimises the
risk is a small network that is trained.
"""
