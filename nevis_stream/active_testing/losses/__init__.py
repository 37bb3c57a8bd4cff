"""Losses. A module's name is that of its `LOSS`: probabilities float64[n, c] to losses, float64[n,
c] in nats or errors, that the model has if the sample's label is that class.
"""
