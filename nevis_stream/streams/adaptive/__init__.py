"""Dynamic benchmarks: samples are collected where today's model errs, and the next model is trained
on the mixture.

Source: Shirali, Abebe and Hardt, A Theory of Dynamic Benchmarks, ICLR 2023.
"""
