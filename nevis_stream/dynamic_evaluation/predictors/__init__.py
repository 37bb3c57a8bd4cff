"""Predictors, which give the cells that were not asked; the table is `methods.PREDICTORS`."""
