"""One self-contained HTML page with the results of a set of runs, and their tables and figures as
files.

Import `nevis_stream.report.build` where a report is wanted: it loads matplotlib, so nothing else
imports it.
"""
