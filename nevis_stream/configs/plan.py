"""The plan of a run or of a sweep, tasks, trials, steps and estimated FLOPs, without training;
and the results of a sweep.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.table import Table

from nevis_stream.analysis.methods import MethodPoint, list_method_points
from nevis_stream.analysis.runs import group_by_stream, read_runs
from nevis_stream.analysis.seeds import group_by_seed
from nevis_stream.configs.grid import STEPS, TRIALS, Cell, format_value, shorten_key
from nevis_stream.configs.run_config import RunConfig, flatten
from nevis_stream.cost.meter import format_cost, format_engineering
from nevis_stream.streams.stream import Stream
from nevis_stream.terminal import Console


def plan(config: RunConfig, stream: Stream) -> list[dict]:
    """Returns a row for each task: year, task_id and sizes, and what the learner estimates.

    A learner with a method `estimate` returns trials, steps, batch and FLOPs.
    """
    learner = config.build()
    rows, earlier = [], 0
    for event in stream.events(config.protocol):
        if event.split is None:
            continue
        task, splits = event.task, stream.splits(event.task)
        row = {
            "year": task.year,
            "task_id": task.task_id,
            "kind": task.kind,
            "classes": task.num_classes,
        }
        row |= {
            "n_train": len(splits["train"]),
            "n_dev": len(splits["dev"]),
            "n_predict": len(splits[event.split]),
        }
        if hasattr(learner, "estimate"):
            row |= learner.estimate(
                task.num_classes, row["n_train"], row["n_dev"], row["n_predict"], earlier
            )
            earlier += 1
        rows.append(row)
    return rows


def _title(config: RunConfig) -> str:
    return config.label + (f", budget {config.budget}" if config.budget else "")


def print_plan(config: RunConfig, stream: Stream, seeds: int = 1) -> None:
    """Prints the plan as a table with totals."""
    rows = plan(config, stream)
    console = Console(width=None if Console().is_terminal else 140)
    table = Table(title=f"{_title(config)}, stream {stream.name} ({stream.digest})")
    phases = ("select", "train", "validate", "predict")
    for name in ("year", "task", "classes", "train", "dev", "predict", "trials", "steps", "batch"):
        table.add_column(name, justify="left" if name == "task" else "right")
    for phase in phases:
        table.add_column(f"FLOPs {phase}", justify="right")
    for row in rows:
        flops = row.get("flops", {})
        cells = [row[k] for k in ("year", "task_id", "classes", "n_train", "n_dev", "n_predict")]
        cells += [row.get(k, "-") for k in ("trials", "steps", "batch")]
        table.add_row(
            *map(str, cells), *(format_engineering(flops[p]) if p in flops else "-" for p in phases)
        )
    console.print(table)
    if not all("flops" in row for row in rows):
        console.print(
            f"{config.learner} does not estimate its FLOPs, which depend on the images; the run"
            " counts them."
        )
        return
    totals = {phase: sum(row["flops"].get(phase, 0) for row in rows) for phase in phases}
    console.print(
        f"{len(rows)} tasks, {sum(r['trials'] for r in rows)} trials,"
        f" {sum(r['trials'] * r['steps'] for r in rows)}"
        f" steps{f', for each of {seeds} seeds' if seeds > 1 else ''}. Estimated FLOPs of one seed:"
        f" {format_engineering(sum(totals.values()))}, of which"
        f" {format_engineering(totals['train'])} are training (the cost that the paper reports)."
        " Nothing was run.",
        soft_wrap=True,
    )


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
            shown = [format_engineering(cost) for cost in costs]
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
            f"{runs} with an estimated {format_engineering(sums[1])} FLOPs, of which"
            f" {format_engineering(sums[0])} are training (the cost that the paper reports)"
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
        costs = format_cost(point.paper_total.mean), format_cost(point.full_total.mean)
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
        for point in list_method_points(group_by_seed(group)):
            points_by_path |= {run.path: point for run in point.group.runs}
    return points_by_path, [f"{skipped.path}: {skipped.reason}" for skipped in left_out]


def _console() -> Console:
    return Console(width=None if Console().is_terminal else 120)


def _keys(cells: Sequence[Cell]) -> list[str]:
    keys = [key for key in (TRIALS, STEPS) if all(key in flatten(cell.config) for cell in cells)]
    return [*keys, *(key for key in cells[0].values if key not in keys)]


def _table(title: str, keys: Sequence[str]) -> Table:
    table = Table(title=title)
    for key in keys:
        table.add_column(shorten_key(key), justify="right")
    return table


def _cells(cell: Cell, keys: Sequence[str]) -> list[str]:
    values = flatten(cell.config)
    return [format_value(values[key]) for key in keys]
