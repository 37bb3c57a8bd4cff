"""Label-efficient testing as people use it: pools of images, sessions, simulations and pages."""
