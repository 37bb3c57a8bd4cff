"""Dynamic evaluation: a growing, partly known matrix of outcomes, models × samples, and the
evaluation of new rows and columns at a fraction of the cost.
"""
