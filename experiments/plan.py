"""The plan of a run: tasks, trials, steps and estimated FLOPs, without training."""

from rich.table import Table

from nevis_stream.cost.meter import engineering
from nevis_stream.experiments.run_config import RunConfig
from nevis_stream.streams.stream import Stream
from nevis_stream.terminal import Console


def plan(config: RunConfig, stream: Stream) -> list[dict]:
    """Returns a row for each task: year, task_id and sizes, and what the learner estimates.

    A learner with a method `estimate` returns trials, steps, batch and FLOPs.
    """
    learner = config.build()
    rows, earlier = [], 0
    for event in stream.events(config.protocol):
        if event.kind == "train":
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
            *map(str, cells), *(engineering(flops[p]) if p in flops else "-" for p in phases)
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
        f" {engineering(sum(totals.values()))}, of which {engineering(totals['train'])} are"
        " training (the cost that the paper reports). Nothing was run.",
        soft_wrap=True,
    )
