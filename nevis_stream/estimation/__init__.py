"""Intervals of means of which some values were seen."""
