"""Runs learners of increasing cost on the embedded stream and writes the report.

  python -m launch.demo

The same command continues interrupted runs.
"""

import time
from pathlib import Path

from absl import flags

from nevis_stream.cost.meter import format_cost
from nevis_stream.launch import command_line, entry
from nevis_stream.terminal import Console

_FOLDER = flags.DEFINE_string("runs", "runs/demo", "Directory for the runs and the report.")
_STREAM = command_line.define_stream("pico")
command_line.define_data_dir()

# by increasing cost
RUNS = (
    ("nearest_class_mean", "tiny"),
    ("closed_form", "tiny"),
    ("frontier", "large"),
    ("closed_form", "large"),
    ("indep", "tiny"),
    ("ft_prev", "tiny"),
)


def main(_):
    """Runs the learners whose runs are missing or unfinished, then writes the report."""
    from nevis_stream.configs import run_config
    from nevis_stream.configs.run_config import run_config_once
    from nevis_stream.report.build import write_report
    from nevis_stream.streams.named_streams import load_stream

    entry.use_compilation_cache()
    begin = time.monotonic()
    stream = load_stream(_STREAM.value)
    directories = []
    for learner, budget in RUNS:
        config = run_config.make_default(learner)
        config.update(budget=budget, stream=_STREAM.value)
        directories.append(Path(_FOLDER.value) / f"{learner}-{budget}")
        run_config_once(run_config.resolve(config), stream, directories[-1])
    page = write_report(directories, Path(_FOLDER.value) / "report")
    _print_points(directories)
    print(
        f"\n{len(stream.tasks)} tasks, {len(directories)} runs, {time.monotonic() - begin:.0f} s."
        f" Report: {page}"
    )


def _print_points(directories: list[Path]) -> None:
    """Prints error and FLOPs of each run; * marks the Pareto front (error, FLOPs of training)."""
    from rich.table import Table

    from nevis_stream.analysis.pareto import find_pareto_front
    from nevis_stream.analysis.points import point
    from nevis_stream.run_directory.ledger import Ledger

    table = Table(title="Mean error on the meta-test tasks; FLOPs of the whole stream")
    for name in ("learner", "budget", "error", "FLOPs (training)", "FLOPs (all)", "front"):
        number = name == "error" or "FLOPs" in name
        # on 80 columns, headings wrap and names of learners stay whole
        table.add_column(name, justify="right" if number else "left", no_wrap=name == "learner")
    ledgers = [Ledger(directory) for directory in directories]
    points = [point(ledger) for ledger in ledgers]
    front = find_pareto_front([(each.error, each.paper_total) for each in points])
    for number, (ledger, each) in enumerate(zip(ledgers, points, strict=True)):
        table.add_row(
            ledger.header.learner,
            ledger.header.budget or "-",
            f"{each.error:.4f}",
            format_cost(each.paper_total),
            format_cost(each.full_total),
            "*" if number in front else "",
        )
    Console().print(table)


if __name__ == "__main__":
    entry.start(main)
