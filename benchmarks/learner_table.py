"""Checks the table of learners: runs its commands and compares error and FLOPs with it.

  python -m benchmarks.learner_table                  # all learners
  python -m benchmarks.learner_table ft_prev mt

Prints a Markdown table; the exit status is 1 if a run differs from the table (learners.table).
FLOPs must be equal; errors may differ by `TOLERANCE`, since floating-point results depend on the
machine. The table is of an AMD EPYC; on an Intel Xeon two of 14 learners differed by more, by up
to 0.07, and with the error what `bhpo` chooses, and so its FLOPs.
"""

import shlex
import sys
import tempfile
import time
from pathlib import Path

from nevis_stream.analysis.points import point
from nevis_stream.errors import BadInput, unknown
from nevis_stream.experiments import engine
from nevis_stream.experiments.scripts import call, describe
from nevis_stream.learners.table import TABLE
from nevis_stream.run_directory.ledger import Ledger

TOLERANCE = 0.05
_DIGITS = 4


def measure(name: str, folder: Path) -> tuple[float, float, float]:
    """Runs a learner's commands in a folder; returns its error, FLOPs in all, and seconds."""
    begin = time.monotonic()
    for command in TABLE[name].commands(name):
        _, option, module, *words = shlex.split(command)
        # elsewhere than in the checkout, `launch` has its name in the package alone
        call([sys.executable, option, f"nevis_stream.{module}", *words], cwd=folder)
    seconds = time.monotonic() - begin
    result = point(Ledger(folder / "runs" / name))
    return result.error, result.full_total, seconds


def main(*words: str) -> None:
    """Prints the table."""
    for name in words:
        if name not in TABLE:
            raise BadInput(unknown("learner", name, TABLE))
    print(f"{describe()}\n")
    engine.print_table("learner | error: | in the table: | FLOPs: | in the table: | s:", ())
    wrong = []
    for name in words or TABLE:
        row = TABLE[name]
        with tempfile.TemporaryDirectory() as folder:
            error, flops, seconds = measure(name, Path(folder))
        same = abs(error - row.error) <= TOLERANCE
        if not same or f"{flops:.{_DIGITS}g}" != f"{row.flops:.{_DIGITS}g}":
            wrong.append(name)
        cells = (f"{error:.4f}", f"{row.error:.4f}", f"{flops:.4g}", f"{row.flops:.4g}")
        engine.print_row([name, *cells, f"{seconds:.0f}"])
    if wrong:
        sys.exit(f"not as in the table: {', '.join(wrong)}")


if __name__ == "__main__":
    engine.start(main, keep_programs=False)
