"""What run directories say: points, Pareto fronts, regret and tables. Pure functions of ledgers.

A run is judged by the point (E, cFLOP): its mean error on the judged part of the stream and the
FLOPs that it cost. Undefined numbers are NaN with a reason, never 0. Nothing here plots or loads a
framework.
"""
