"""One self-contained HTML page and four csv files that say what a set of runs found.

Import `nevis_stream.report.build` where a report is wanted: it loads matplotlib, so nothing else
imports it.
"""
