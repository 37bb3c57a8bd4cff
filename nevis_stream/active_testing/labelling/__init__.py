"""Labelling sessions: a pool, what is drawn from it, its labels, and what these say of models."""
