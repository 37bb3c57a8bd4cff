"""Estimates of means from some of their values: how samples are drawn, intervals, comparisons."""
