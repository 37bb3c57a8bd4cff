"""Proximal policy optimisation of the choice of samples."""
