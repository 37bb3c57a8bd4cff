"""The files of a run, written by the runner and read by analysis and reports.

See docs/run-directory.md.
"""
