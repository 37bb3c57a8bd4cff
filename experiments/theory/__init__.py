"""The theory of dynamic benchmarks, with every theorem measured.

Source: Shirali, Abebe and Hardt, A Theory of Dynamic Benchmarks, ICLR 2023. Populations, designs,
minimisers and constructions are exact and finite: a distribution is a vector of atom
probabilities, and a classifier is the set of atoms on which it errs.
"""
