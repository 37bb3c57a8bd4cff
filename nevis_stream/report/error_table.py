"""The page's table of errors: one row per task, one column per method."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from nevis_stream.analysis.seeds import SeedGroup, Spread, spread
from nevis_stream.analysis.tables import per_task
from nevis_stream.vocabulary import PROTOCOLS

_KINDS = {"error_rate": "error rate", "mean_average_precision": "1 − mAP"}


@dataclass(frozen=True)
class ErrorCell:
    """One method's error on one task.

    Attributes:
      value: over the seeds that have one.
      gap: `partial`, `missing` or `undefined` where a seed has none; empty otherwise.
      reason: of the gap.
      best: whether no complete cell of the row has a lower mean.
    """

    value: Spread
    gap: str
    reason: str
    best: bool


@dataclass(frozen=True)
class ErrorRow:
    """One task's facts and cells, in the order of the methods; `kind` says what the error is,
    `leaked` how many of the n samples are copies of training images.
    """

    order: int
    task_id: str
    judged: bool
    kind: str
    domain: str
    year: int | None
    n: int
    leaked: int
    cells: tuple[ErrorCell, ...]


def error_rows(groups: Sequence[SeedGroup]) -> list[ErrorRow]:
    """Returns the rows in stream order, on the protocol's split.

    The lowest mean of a row is marked best, ties all, where two methods or more have one; a cell
    with a gap is never best, as its mean is over fewer seeds than the others'.
    """
    runs = [run for group in groups for run in group.runs]
    if not runs:
        return []
    frame = per_task(runs)
    frame = frame[frame["split"] == PROTOCOLS[runs[0].header.protocol].split]
    return [_row(task, groups) for _, task in frame.groupby("task_id", sort=False)]


def _row(task: pd.DataFrame, groups: Sequence[SeedGroup]) -> ErrorRow:
    first = task.iloc[0]
    by_run = {record["run"]: record for record in task.to_dict("records")}
    cells = [_cell([by_run[run.name] for run in group.runs]) for group in groups]
    means = [cell.value.mean for cell in cells if not cell.gap]
    best = min(means) if len(means) > 1 else math.nan
    metrics = (_KINDS.get(metric, metric) for metric in task["metric"].dropna().unique())
    return ErrorRow(
        order=int(first["order"]),
        task_id=first["task_id"],
        judged=bool(task["judged"].any()),
        kind=", ".join(metrics),
        domain=str(first["domain"] or ""),
        year=None if pd.isna(first["year"]) else int(first["year"]),
        n=0 if task["n"].isna().all() else int(task["n"].max()),
        leaked=int(task["n_leaked"].fillna(0).max()),
        cells=tuple(replace(cell, best=not cell.gap and cell.value.mean == best) for cell in cells),
    )


def _cell(results: Sequence[dict]) -> ErrorCell:
    gaps = [result for result in results if result["status"] != "ok"]
    return ErrorCell(
        value=spread([result["error"] for result in results]),
        gap=gaps[0]["status"] if gaps else "",
        reason="; ".join(f"{gap['run']}: {gap['reason']}" for gap in gaps),
        best=False,
    )
