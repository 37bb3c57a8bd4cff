"""Studies of dynamic evaluation: how well methods estimate a new model from few of its answers."""
