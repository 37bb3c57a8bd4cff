"""Training by gradients: the loop over steps, the update of a step, and the optimisers."""
