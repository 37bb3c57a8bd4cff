"""Predictors of finished runs: into evaluation caches, and as what answers queries."""
