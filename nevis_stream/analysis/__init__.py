"""Results of runs: points, Pareto fronts, regret and tables. Functions of
ledgers (what a run has recorded) and of other files in run directories.

A run is judged by its mean error on the judged part of the stream and by the FLOPs that it cost:
the point (E, cFLOP). Undefined numbers are NaN with a reason, never 0. Nothing here plots or loads
a framework.
"""
