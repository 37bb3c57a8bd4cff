"""Compares two methods: which is better, on each task and overall, at what cost, and whether
chance can explain it.

  python -m launch.compare runs/ft_prev runs/indep
  python -m launch.compare runs/ft_prev-* runs/indep-* --out=compare.csv
  python -m launch.compare --a='runs/ft_prev-*' --b='runs/indep-*'

A is the method named first. Runs that differ only in their seed are one method; you can also name
the folder that contains them (from launch.run --seeds=3). If a learner has several budgets, the two
methods closest in cost are compared, and the others are used only for the ratio of the FLOPs needed
to reach the same error. Differences are A - B in percentage points: below zero, A is better.

There are two 95% intervals. The one over seeds is for new runs on the same tasks, and needs two
seeds of each method. The one over tasks is for new runs on other tasks like these (a paired
bootstrap over tasks; with two seeds of each method, it includes the noise that whole runs share).
Measured coverage: docs/evidence/interval-coverage.md.
"""

import glob
import itertools
import math
import sys
from operator import attrgetter
from pathlib import Path

from absl import flags

from nevis_stream.cost.meter import format_cost, format_engineering, format_ratio
from nevis_stream.errors import plural
from nevis_stream.launch import entry
from nevis_stream.storage import write_file
from nevis_stream.terminal import Console

_A = flags.DEFINE_list(
    "a", [], "Run directories or patterns of method A, instead of naming both by position."
)
_B = flags.DEFINE_list("b", [], "Run directories or patterns of method B.")
_OUT = flags.DEFINE_string("out", None, "A csv file for the table, with full precision.")
_ALL_TASKS = flags.DEFINE_bool(
    "all_tasks", False, "Compare all tasks of the stream, not only those that the protocol judges."
)
_ACROSS = flags.DEFINE_bool(
    "across_streams",
    False,
    "Compare runs of different streams on the tasks, of the same data, that are in both.",
)


def main(argv):
    """Prints the comparison."""
    sides = _sides(argv)
    from nevis_stream.analysis.differences import compare_groups, make_table
    from nevis_stream.analysis.pairs import find_nearest_pair, list_points
    from nevis_stream.analysis.runs import read_runs

    runs, left_out = read_runs(list(itertools.chain(*sides)))
    groups = _groups(runs, sides, left_out)
    points = [list_points(side) for side in groups]
    a, b = find_nearest_pair(groups, points)
    comparison = compare_groups(
        a, b, judged_only=not _ALL_TASKS.value, across_streams=_ACROSS.value
    )
    _print(comparison, [f"{item.path}: {item.reason}" for item in left_out], points)
    if _OUT.value:
        from nevis_stream.storage.tables import encode_csv

        write_file(Path(_OUT.value), encode_csv(make_table(comparison)))
        print(f"table: {_OUT.value}")
    if any(item.damaged for item in left_out):
        sys.exit(entry.INCOMPLETE)


def _sides(argv) -> list[list[Path]]:
    """Returns the run directories of both sides; one list if more than two are named by
    position.
    """
    if _A.value or _B.value:
        if argv or not (_A.value and _B.value):
            entry.fail(
                "name both methods, --a=… and --b=…, and nothing else; put patterns in quotes:"
                " --a='runs/a-*'."
            )
        return [_expand(_A.value), _expand(_B.value)]
    if len(argv) == 2:
        return [_expand([name]) for name in argv]
    paths = _expand(argv)
    if len(paths) < 2:
        entry.fail(
            "name the run directories of two methods: python -m launch.compare runs/a runs/b"
        )
    return [paths]


def _expand(names: list[str]) -> list[Path]:
    """Returns the run directories that names, patterns or their parent folders refer to."""
    from nevis_stream.run_directory.ledger import find_run_dirs

    paths = (Path(path) for name in names for path in sorted(glob.glob(name)) or [name])
    return [run_dir for path in paths for run_dir in find_run_dirs(path)]


def _groups(runs, sides, left_out):
    """Returns the methods of the two sides, A first."""
    from nevis_stream.analysis.pairs import split_methods
    from nevis_stream.analysis.seeds import group_by_seed

    reasons = "".join(f"\n  {item.path}: {item.reason}" for item in left_out)
    groups = group_by_seed(runs)
    if len(sides) == 1:
        places = {path: place for place, path in enumerate(sides[0])}
        groups.sort(key=lambda group: min(places[run.path] for run in group.runs))
        name_of = attrgetter("label" if len(groups) == 2 else "learner")
        names = list(dict.fromkeys(map(name_of, groups)))
        if len(names) != 2:
            listed = "".join(
                f"\n  {group.label}: {', '.join(run.name for run in group.runs)}"
                for group in groups
            )
            entry.fail(
                f"these runs belong to {plural(len(names), 'method')}, not two:"
                f"{listed or ' none'}{reasons}"
                "\nName the two methods: --a='runs/a-*' --b='runs/b-*'. To compare more methods,"
                " pair by pair: python -m launch.report"
            )
        return [[group for group in groups if name_of(group) == name] for name in names]
    return split_methods(runs, sides, left_out)


def _print(comparison, left_out, points) -> None:
    from nevis_stream.analysis.seeds import list_notes
    from nevis_stream.analysis.verdict import format_span, list_cautions, state_costs, state_verdict

    console = Console(highlight=False, soft_wrap=True)
    a, b, seeds = comparison.a, comparison.b, comparison.over_seeds.seeds
    others = [label for side in points for label in side if label not in (a.label, b.label)]
    console.print(state_verdict(comparison), style="bold")
    console.print(state_costs(comparison))
    console.print(
        f"A: {a.label}, {plural(seeds[0], 'seed')}; B: {b.label}, {plural(seeds[1], 'seed')}."
    )
    console.print(_cost("Training FLOPs", comparison.paper))
    console.print(_cost("FLOPs of all phases", comparison.full))
    if others or not comparison.paper.equal:
        console.print(_reach_statement(*(list(side.values()) for side in points)))
    if others:
        console.print(
            "The two methods closest in cost are compared. Used only for the FLOPs to reach the"
            f" same error: {', '.join(others)}."
        )
    console.print(
        f"  95% interval over seeds, on these tasks: {format_span(comparison.over_seeds)}"
    )
    console.print(
        "  95% interval over tasks and seeds, on other tasks like these:"
        f" {format_span(comparison.over_tasks)}"
    )
    remarks = [*list_cautions(comparison), *comparison.remarks, *left_out]
    for remark in (*remarks, *list_notes((a.learner, b.learner))):
        console.print(f"  note: {remark}")
    console.print(_table(comparison))
    console.print(
        "Errors and differences are in percentage points; − means that A is better. Intervals of"
        " single tasks are not corrected for the number of tasks."
    )


def _cost(name: str, pair) -> str:
    quotient = "" if math.isnan(pair.ratio) else f" (A / B = {format_ratio(pair.ratio)})"
    return f"  {name}: A {format_cost(pair.a)}, B {format_cost(pair.b)}{quotient}"


def _reach_statement(points_a, points_b) -> str:
    from nevis_stream.analysis.pareto import compare_flops_to_reach

    quotient = compare_flops_to_reach(points_a, points_b)
    if math.isnan(quotient.value):
        for name, points in (("A", points_a), ("B", points_b)):
            if points and not any(flops != 0 for _, flops in points):
                return f"FLOPs to reach the same error: no ratio, because {name} used none."
        return (
            "FLOPs to reach the same error: unknown, because A or B has no finished run or no known"
            " cost."
        )
    a, b = (
        f"{reach.basis} {format_engineering(reach.flops)}" for reach in (quotient.a, quotient.b)
    )
    return (
        f"Training FLOPs to reach mean error {quotient.error:.4f}, the lowest that both reach:"
        f" A / B {quotient.bound or '='} {format_ratio(quotient.value)} (A {a}; B {b}; not"
        " extrapolated)."
    )


def _table(comparison):
    from rich.table import Table

    from nevis_stream.analysis.verdict import format_span

    table = Table(box=None, header_style="bold")
    table.add_column("task")
    for heading in ("n", "A", "B", "A − B", "95% over seeds"):
        table.add_column(heading, justify="right", no_wrap=True)

    def add(name: str, n: str, a: float, b: float, interval, last: bool) -> None:
        difference = f"{100 * interval.estimate:+.2f}".replace("-", "−")
        limits = "–" if math.isnan(interval.low) else format_span(interval)
        colour = {-1: "green", 1: "red"}.get(interval.side)
        errors = f"{100 * a:.2f}", f"{100 * b:.2f}"
        table.add_row(name, n, *errors, difference, limits, style=colour, end_section=last)

    tasks = sorted(comparison.tasks, key=lambda task: (task.difference.estimate, task.order))
    for task in tasks:
        last = task is tasks[-1]
        add(task.task_id, str(task.n or "–"), task.a, task.b, task.difference, last)
    mean_a, mean_b = (math.fsum(getattr(t, side) for t in tasks) / len(tasks) for side in "ab")
    add("all tasks", "", mean_a, mean_b, comparison.over_seeds, False)
    return table


if __name__ == "__main__":
    entry.start(main, words="RUN_DIR ...")
