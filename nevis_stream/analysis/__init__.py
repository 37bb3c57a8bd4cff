"""Results of runs: points, Pareto fronts, regret and tables. Pure functions of ledgers.

A run is judged by its mean error on the judged part of the stream and by the FLOPs that it cost:
the point (E, cFLOP). Undefined numbers are NaN with a reason, never 0. Nothing here plots or loads
a framework.
"""
