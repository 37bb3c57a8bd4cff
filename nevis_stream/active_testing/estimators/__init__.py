"""Estimators of the risk. A module's name is that of its `ESTIMATOR`."""
