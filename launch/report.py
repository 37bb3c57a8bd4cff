"""Writes report.html and its tables (csv, LaTeX) from run directories; --figures adds each figure
as PNG and PDF.

  python -m launch.report runs/a runs/b --out=report
  python -m launch.report runs/* --out=report --figures
  python -m launch.report runs/* caches/* --out=report            with evaluation caches (launch.evaluate metrics)
  python -m launch.report studies/* --out=report                  of studies of methods (launch.evaluate study)

The page is a single file that needs no network. Unfinished runs have no point, damaged ones are left
out, and each stream has its own section; the page says why. The directories may include those of
launch.transfer_matrix. Files in OUT that an earlier report wrote (listed in OUT/files.sha256) and this
one does not write are removed; all others stay. If a file could not be read, the page and stderr
name it, and the exit status is 1.
"""  # noqa: E501

import sys
from pathlib import Path

from absl import flags

from nevis_stream.launch import entry
from nevis_stream.terminal import TerminalProgress

_OUT = flags.DEFINE_string("out", "report", "Directory for report.html and its tables.")
_FIGURES = flags.DEFINE_bool(
    "figures", False, "Also write every figure as PNG and PDF, in OUT/figures."
)


def main(argv):
    """Writes the report and prints its path."""
    if not argv:
        entry.fail(
            "name at least one run directory: python -m launch.report runs/a runs/b --out=report"
        )
    from nevis_stream.report.build import make_report

    with TerminalProgress("report") as progress:
        paths = [Path(name) for name in argv]
        report = make_report(paths, Path(_OUT.value), _FIGURES.value, progress)
    print(report.page)
    if not report.complete:
        sys.exit(entry.INCOMPLETE)


if __name__ == "__main__":
    entry.start(main, words="DIRECTORY ...")
