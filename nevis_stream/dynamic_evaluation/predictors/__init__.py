"""Predictors of cells. A module's name is that of its `PREDICTOR`."""
