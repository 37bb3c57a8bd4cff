"""Surrogates: what predicts the labels of the pool. A module's name is that of its `SURROGATE`, a
`surrogate.SurrogateKind`.
"""
