"""Dynamic benchmarks: samples are collected where today's model errs, and the next model is trained
on the mixture.

Source: Shirali, Abebe and Hardt, A Theory of Dynamic Benchmarks, ICLR 2023. Populations, designs,
minimisers and constructions are exact and finite: a distribution is a vector of atom
probabilities, and a classifier is the set of atoms on which it errs.
"""
