"""Empirical rollouts: a design of `designs` whose minimiser trains a small network."""
