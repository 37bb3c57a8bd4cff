"""Predictors of cells. A module here that offers a `PREDICTOR` is one, under its own name."""
