"""Tables of a sweep: its estimated cost, and its results."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.table import Table

from nevis_stream.analysis.methods import MethodPoint, method_points
from nevis_stream.analysis.runs import group_by_stream, read_runs
from nevis_stream.analysis.seeds import by_seed
from nevis_stream.cost.meter import cost_text, engineering
from nevis_stream.experiments.grid import STEPS, TRIALS, Cell, format_value, short_key
from nevis_stream.experiments.plan import plan
from nevis_stream.experiments.run_config import flat
from nevis_stream.streams.stream import Stream
from nevis_stream.terminal import Console


def print_sweep_plan(cells: Sequence[Cell], load: Callable[[str], Stream], seeds: int) -> None:
    """Prints the tasks and estimated FLOPs of each combination, and the sums over the sweep.

    Args:
      cells: the combinations.
      load: returns a stream by its name.
      seeds: number of runs of each combination.
    """
    keys = _keys(cells)
    table = _table(f"{len(cells)} combinations, {seeds} {'seed' if seeds == 1 else 'seeds'}", keys)
    for name in ("tasks", "FLOPs training", "FLOPs in all"):
        table.add_column(name, justify="right")
    sums = [0.0, 0.0]
    uncounted = set()
    for cell in cells:
        rows = plan(cell.config, load(cell.config.stream))
        if all("flops" in row for row in rows):
            costs = [
                sum(row["flops"]["train"] for row in rows),
                sum(sum(row["flops"].values()) for row in rows),
            ]
            sums = [total + seeds * cost for total, cost in zip(sums, costs, strict=True)]
            shown = [engineering(cost) for cost in costs]
        else:
            uncounted.add(cell.config.learner)
            shown = ["-", "-"]
        table.add_row(*_cells(cell, keys), str(len(rows)), *shown)
    console = _console()
    console.print(table)
    for learner in sorted(uncounted):
        console.print(
            f"{learner} does not estimate its FLOPs, so the sum does not include it; its runs will"
            " count them."
        )
    number = len(cells) * seeds
    runs = f"{number} run{'s'[: number != 1]}"
    if len(uncounted) == len({cell.config.learner for cell in cells}):
        cost = f"{runs} with an unknown number of FLOPs"
    else:
        cost = (
            f"{runs} with an estimated {engineering(sums[1])} FLOPs, of which"
            f" {engineering(sums[0])} are training (the cost that the paper reports)"
        )
    console.print(f"{cost}. Nothing was run.", highlight=False)


def print_results(cells: Sequence[Cell], directories: Mapping[str, Sequence[Path]]) -> None:
    """Prints the mean result of each combination over its seeds.

    * marks the Pareto front of each stream (error and FLOPs of training).

    Args:
      cells: the combinations.
      directories: the complete runs of each cell, by its name.
    """
    points, reasons = _points([directory for paths in directories.values() for directory in paths])
    keys = _keys(cells)
    table = _table("* marks the Pareto front (error, FLOPs training)", keys)
    for name in ("seeds", "error", "± std", "FLOPs training", "FLOPs in all", "front"):
        table.add_column(name, justify="right")
    for cell in cells:
        point = next((points[path] for path in directories[cell.name] if path in points), None)
        if point is None:
            table.add_row(*_cells(cell, keys), "0", *5 * "-")
            continue
        spread = f"{point.error.std:.4f}" if point.error.n > 1 else ""
        costs = cost_text(point.paper_total.mean), cost_text(point.full_total.mean)
        mark = "*" if point.on_paper_front else ""
        table.add_row(
            *_cells(cell, keys), str(point.error.n), f"{point.error.mean:.4f}", spread, *costs, mark
        )
        reasons += point.reasons
    console = _console()
    console.print(table)
    for reason in reasons:
        console.print(reason, highlight=False)
    if len({cell.config.stream for cell in cells}) > 1:
        console.print("Each stream has its own Pareto front.")


def _points(directories: Sequence[Path]) -> tuple[dict[Path, MethodPoint], list[str]]:
    """Returns the mean result of each directory's combination, and why directories are left out."""
    runs, left_out = read_runs(directories)
    points_by_path = {}
    for group in group_by_stream(runs).values():
        for point in method_points(by_seed(group)):
            points_by_path |= {run.path: point for run in point.group.runs}
    return points_by_path, [f"{skipped.path}: {skipped.reason}" for skipped in left_out]


def _console() -> Console:
    return Console(width=None if Console().is_terminal else 120)


def _keys(cells: Sequence[Cell]) -> list[str]:
    keys = [key for key in (TRIALS, STEPS) if all(key in flat(cell.config) for cell in cells)]
    return [*keys, *(key for key in cells[0].values if key not in keys)]


def _table(title: str, keys: Sequence[str]) -> Table:
    table = Table(title=title)
    for key in keys:
        table.add_column(short_key(key), justify="right")
    return table


def _cells(cell: Cell, keys: Sequence[str]) -> list[str]:
    values = flat(cell.config)
    return [format_value(values[key]) for key in keys]
