"""The demonstration: two learners at two budgets on the embedded stream, and the report.

  python -m launch.demo

Runs Indep and FT-prev at the budgets tiny and small (or goes on with them) and writes report.html.
"""

import time
from pathlib import Path

from absl import flags

from launch import entry

_RUNS = flags.DEFINE_string(
    "runs", "runs/demo", "Directory in which the four run directories and the report are kept."
)
_STREAM = flags.DEFINE_string("stream", "pico", "Stream to run: a name, or a csv of rows.")

LEARNERS = ("indep", "ft_prev")
DEMO_BUDGETS = ("tiny", "small")


def main(argv):
    """Runs what is not done yet, then reports."""
    if argv:
        entry.fail(f"{argv[0]!r}: this command takes flags only; see --help.")
    from experiments import run_config
    from launch.one_run import run_config_once
    from nevis_stream.report.build import write_report
    from nevis_stream.streams.stream import load_stream

    entry.use_compilation_cache()
    begin = time.monotonic()
    stream = load_stream(_STREAM.value)
    directories = []
    for budget in DEMO_BUDGETS:
        for learner in LEARNERS:
            config = run_config.default(learner)
            config.budget, config.stream = budget, _STREAM.value
            directories.append(Path(_RUNS.value) / f"{learner}-{budget}")
            run_config_once(run_config.resolve(config), stream, directories[-1])
    page = write_report(directories, Path(_RUNS.value) / "report")
    _print_points(directories)
    print(
        f"\n{len(stream.tasks)} tasks, {len(directories)} runs, {time.monotonic() - begin:.0f} s."
        f" The report: {page}"
    )


def _print_points(directories: list[Path]) -> None:
    """Prints one line a run: its point and what it consists of."""
    from rich.table import Table

    from nevis_stream.analysis.points import point
    from nevis_stream.run_directory.ledger import Ledger
    from nevis_stream.terminal import Console

    table = Table(title="Points: average error on the meta-test tasks, FLOPs of the whole stream")
    for name, justify in (
        ("learner", "left"),
        ("budget", "left"),
        ("error", "right"),
        ("FLOPs (training)", "right"),
    ):
        table.add_column(name, justify=justify)
    table.add_column("FLOPs (everything)", justify="right")
    for directory in directories:
        ledger = Ledger(directory)
        of_run = point(ledger)
        table.add_row(
            ledger.header["learner"],
            ledger.header["budget"],
            f"{of_run.error:.4f}",
            f"{of_run.paper_total:.3g}",
            f"{of_run.full_total:.3g}",
        )
    Console().print(table)


if __name__ == "__main__":
    entry.start(main)
