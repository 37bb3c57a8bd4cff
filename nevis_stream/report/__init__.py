"""One self-contained HTML page and the tables and figures beside it, which say what a set of runs
found.

Import `nevis_stream.report.build` where a report is wanted: it loads matplotlib, so nothing else
imports it.
"""
