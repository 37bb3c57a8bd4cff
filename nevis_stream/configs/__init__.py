"""Runs of learners that have a name: a run's config, grids and plans of configs, pre-training,
transfer matrices, and what run directories recorded.
"""
