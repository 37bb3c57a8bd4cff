"""Acquisition rules: scores float64[r] of r candidates, larger for labels that are worth more. A
module's name is that of its `RULE`, which takes `candidates.Candidates`.
"""
