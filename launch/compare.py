"""Compares two methods: which is better, on each task and overall, at what cost, and whether
chance can explain it.

  python -m launch.compare runs/ft_prev runs/indep
  python -m launch.compare runs/ft_prev-* runs/indep-* --out=compare.csv
  python -m launch.compare --a='runs/ft_prev-*' --b='runs/indep-*'

A is the method named first. Runs that differ only in their seed are one method; name a folder of
seeds (from launch.run --seeds=3) instead of its runs if you like. If a learner has several budgets,
the two methods nearest in cost are compared; the others only enter the ratio of FLOPs to reach the
same error. Differences are A - B in points (hundredths of error): below zero, A is better.

Two intervals, both 95%. Over seeds: on these same tasks, in other runs; needs two seeds of each.
Over tasks: on other tasks like these, in other runs (paired bootstrap over tasks; with two seeds of
each, also the noise that whole runs share). Measured coverage: benchmarks/RESULTS.md.
"""

import glob
import itertools
import math
from operator import attrgetter
from pathlib import Path

from absl import flags

from launch import entry

_A = flags.DEFINE_list(
    "a", [], "Run directories or patterns of A, instead of naming both sides by position."
)
_B = flags.DEFINE_list("b", [], "The same for B.")
_OUT = flags.DEFINE_string("out", None, "A csv file for the table, with full precision.")
_ALL_TASKS = flags.DEFINE_bool(
    "all_tasks", False, "Compare all tasks of the stream, not only those that the protocol judges."
)
_ACROSS = flags.DEFINE_bool(
    "across_streams", False, "Compare runs of different streams on the tasks that both hold."
)


def main(argv):
    """Prints the comparison."""
    sides = _sides(argv)
    from nevis_stream.analysis.differences import compare, table
    from nevis_stream.analysis.methods import method_points
    from nevis_stream.analysis.runs import read_runs

    runs, left_out = read_runs(list(itertools.chain(*sides)))
    groups = _groups(runs, sides, left_out)
    points = [
        {m.group.label: (m.error.mean, m.paper_total.mean) for m in method_points(side)}
        for side in groups
    ]
    a, b = _nearest(groups, points)
    comparison = compare(a, b, judged_only=not _ALL_TASKS.value, across_streams=_ACROSS.value)
    _print(comparison, [f"{item.path}: {item.reason}" for item in left_out], points)
    if _OUT.value:
        from nevis_stream.spreadsheet import csv_bytes
        from nevis_stream.storage import write_file

        write_file(Path(_OUT.value), csv_bytes(table(comparison)))
        print(f"table: {_OUT.value}")


def _sides(argv) -> list[list[Path]]:
    """The run directories of the two sides; a single list if more than two are named, to be split
    by method.
    """
    if _A.value or _B.value:
        if argv or not (_A.value and _B.value):
            entry.fail(
                "name both sides, --a=… and --b=…, and nothing else; put patterns in quotes:"
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
    run_dirs = []
    for name in names:
        for path in map(Path, sorted(glob.glob(name)) or [name]):
            inside = (
                []
                if (path / "ledger.jsonl").exists()
                else sorted(p.parent for p in path.glob("*/ledger.jsonl"))
            )
            run_dirs += inside or [path]
    return run_dirs


def _groups(runs, sides, left_out):
    """The two sides' methods, A first."""
    from nevis_stream.analysis.seeds import by_seed

    reasons = "".join(f"\n  {item.path}: {item.reason}" for item in left_out)
    groups = by_seed(runs)
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
                f"{len(names)} methods among these runs; expected two:{listed or ' none'}{reasons}"
                "\nName two sides: --a='runs/a-*' --b='runs/b-*'. For all pairs of more methods:"
                " python -m launch.report"
            )
        return [[group for group in groups if name_of(group) == name] for name in names]
    split = [
        [group for group in groups if {run.path for run in group.runs} & set(side)]
        for side in sides
    ]
    both = [group.label for group in split[0] if group in split[1]]
    if both:
        entry.fail(
            f"both sides contain runs of {both[0]}, which differ only in their seed. Name two"
            " methods."
        )
    for name, side in zip("AB", split, strict=True):
        if not side:
            entry.fail(f"no usable run for {name}:{reasons}")
    return split


def _nearest(groups, points):
    """The pair of methods nearest in cost; if several are equally near, the costliest."""

    def distance(pair) -> tuple[float, float]:
        costs = [float(side[group.label][1]) for side, group in zip(points, pair, strict=True)]
        if not all(cost > 0 for cost in costs):
            return math.inf, 0.0
        return round(abs(math.log(costs[0] / costs[1])), 3), -costs[0]

    return min(itertools.product(*groups), key=distance)


def _print(comparison, left_out, points) -> None:
    from nevis_stream.analysis.reach import reach_ratio
    from nevis_stream.analysis.stand_ins import notes
    from nevis_stream.analysis.verdict import cautions, cost_statement, count, span, verdict
    from nevis_stream.cost.engineering import engineering
    from nevis_stream.terminal import Console

    console = Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
    console.print(verdict(comparison), style="bold")
    console.print(cost_statement(comparison))
    for name, cost in (
        ("Training FLOPs", comparison.paper),
        ("FLOPs of all phases", comparison.full),
    ):
        ratio = f" (A / B = {cost.ratio:.3g})" if cost.ratio == cost.ratio else ""
        console.print(f"  {name}: A {engineering(cost.a)}, B {engineering(cost.b)}{ratio}")
    a, b = (list(side.values()) for side in points)
    ratio = reach_ratio(a, b)
    if len(a) + len(b) > 2 or not comparison.paper.equal:
        console.print(_reach_statement(ratio, engineering))
    others = [
        label
        for side in points
        for label in side
        if label not in (comparison.a.label, comparison.b.label)
    ]
    if others:
        console.print(
            "Compared are the two methods nearest in cost. Used only for FLOPs to reach the same"
            f" error: {', '.join(others)}."
        )
    console.print(
        f"A: {comparison.a.label}, {count(comparison.over_seeds.seeds[0], 'seed')}; ", end=""
    )
    console.print(f"B: {comparison.b.label}, {count(comparison.over_seeds.seeds[1], 'seed')}.")
    console.print(f"  95% interval over seeds, on these tasks: {span(comparison.over_seeds)}")
    console.print(
        "  95% interval over tasks and seeds, on other tasks like these:"
        f" {span(comparison.over_tasks)}"
    )
    for remark in (
        *cautions(comparison),
        *comparison.remarks,
        *left_out,
        *notes((comparison.a.learner, comparison.b.learner)),
    ):
        console.print(f"  note: {remark}")
    console.print(_table(comparison))
    console.print(
        "In points (hundredths of error); − means that A is better. Intervals of single tasks are"
        " not corrected for the number of tasks."
    )


def _reach_statement(ratio, engineering) -> str:
    if math.isnan(ratio.value):
        return (
            "FLOPs to reach the same error: unknown, because one side has no finished run or no"
            " known cost."
        )
    needs = "; ".join(
        f"{name} {reach.basis} {engineering(reach.flops)}"
        for name, reach in (("A", ratio.a), ("B", ratio.b))
    )
    value = f"{ratio.bound or '='} {ratio.value:.3g}"
    return (
        f"Training FLOPs to reach mean error {ratio.error:.4f}, the lowest that both reach: A / B"
        f" {value} ({needs}; not extrapolated)."
    )


def _table(comparison):
    from rich.table import Table

    from nevis_stream.analysis.differences import table
    from nevis_stream.analysis.verdict import span

    shown = Table(box=None, header_style="bold")
    shown.add_column("task")
    for heading in ("n", "A", "B", "A − B", "95% over seeds"):
        shown.add_column(heading, justify="right", no_wrap=True)
    by_task = {task.task_id: task for task in comparison.tasks}
    rows = table(comparison).to_dict("records")
    for row in rows:
        interval = by_task[row["task_id"]].difference if row["task_id"] else comparison.over_seeds
        cells = [f"{100 * row[name]:.2f}" for name in ("error_a", "error_b")]
        difference = f"{100 * row['difference']:+.2f}".replace("-", "−")
        colour = {-1: "green", 1: "red"}.get(interval.side)
        limits = span(interval) if interval.low == interval.low else "–"
        last = row is rows[-1]
        name, n = ("all tasks" if last else row["task_id"]), ("" if last else str(row["n"] or "–"))
        shown.add_row(name, n, *cells, difference, limits, style=colour)
        if row is rows[-2]:
            shown.add_section()
    return shown


if __name__ == "__main__":
    entry.start(main, words="RUN_DIR ...")
