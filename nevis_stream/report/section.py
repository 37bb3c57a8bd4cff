"""The runs of one stream under one protocol, and all of them together: what the parts of the page
show.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

import pandas as pd

from nevis_stream.analysis.answering import get_rule_name, is_adaptive
from nevis_stream.analysis.consistency import differ_in_events
from nevis_stream.analysis.differences import Comparison
from nevis_stream.analysis.methods import MethodPoint, list_method_points
from nevis_stream.analysis.pairs import compare_with_references
from nevis_stream.analysis.points import describe_progress
from nevis_stream.analysis.runs import Run
from nevis_stream.analysis.seeds import SeedGroup, Spread, group_by_seed, list_notes, spread
from nevis_stream.analysis.tables import tabulate_tasks
from nevis_stream.analysis.transfer_matrix import TransferMatrix
from nevis_stream.report.styles import Style, assign_method_styles
from nevis_stream.report.summaries import Evaluation, Study
from nevis_stream.run_directory.records import Header
from nevis_stream.vocabulary import PROTOCOLS

_ERROR_NAMES = {"error_rate": "error rate", "mean_average_precision": "1 − mAP"}


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
    """One task's facts, and its cells in the order of the methods. `kind` says what the error is, n
    is the number of samples, and `leaked` how many of them are copies of training images.
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


def list_error_rows(groups: Sequence[SeedGroup]) -> list[ErrorRow]:
    """Returns a row of errors for each task, in stream order, on the protocol's split.

    The lowest mean of a row is marked best, ties all, where two methods or more have one; a cell
    with a gap is never best, as its mean is over fewer seeds than the others'.
    """
    runs = [run for group in groups for run in group.runs]
    if not runs:
        return []
    frame = tabulate_tasks(runs)
    frame = frame[frame["split"] == PROTOCOLS[runs[0].header.protocol].split]
    return [_make_row(task, groups) for _, task in frame.groupby("task_id", sort=False)]


def _make_row(task: pd.DataFrame, groups: Sequence[SeedGroup]) -> ErrorRow:
    first = task.iloc[0]
    by_run = {record["run"]: record for record in task.to_dict("records")}
    cells = [_make_cell([by_run[run.name] for run in group.runs]) for group in groups]
    means = [cell.value.mean for cell in cells if not cell.gap]
    best = min(means) if len(means) > 1 else math.nan
    metrics = (_ERROR_NAMES.get(metric, metric) for metric in task["metric"].dropna().unique())
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


def _make_cell(results: Sequence[dict]) -> ErrorCell:
    gaps = [result for result in results if result["status"] != "ok"]
    return ErrorCell(
        value=spread([result["error"] for result in results]),
        gap=gaps[0]["status"] if gaps else "",
        reason="; ".join(f"{gap['run']}: {gap['reason']}" for gap in gaps),
        best=False,
    )


T = TypeVar("T")


@dataclass(frozen=True)
class Section:
    """The runs of one stream (by digest) and protocol.

    Attributes:
      number: position in the page, from 1; ids in the page end with it.
      runs: usable runs, unfinished ones too.
    """

    number: int
    runs: Sequence[Run]
    _computed: dict[Callable, object] = field(default_factory=dict, repr=False, compare=False)

    @property
    def header(self) -> Header:
        """The `run` record of the first run."""
        return self.runs[0].header

    @property
    def title(self) -> str:
        """The heading."""
        name = self.header.stream
        if is_adaptive(self.runs[0]):  # the name does not contain the default rule
            words = [word for word in name.split(",") if not word.startswith("rule=")]
            name = f"{','.join(words)}, rule {get_rule_name(self.runs[0])}"
        return f"Stream {name}, protocol {self.header.protocol}"

    @property
    def judged_text(self) -> str:
        """What the protocol judges, in words."""
        meta_split, split = PROTOCOLS[self.header.protocol]
        return f"errors on the {split} split of the meta-{meta_split} tasks"

    @cached_property
    def groups(self) -> list[SeedGroup]:
        """The runs by method."""
        return group_by_seed(self.runs)

    @cached_property
    def styles(self) -> dict[str, Style]:
        """How each method is drawn, by label."""
        return assign_method_styles(self.groups)

    @cached_property
    def methods(self) -> list[MethodPoint]:
        """The point of each method."""
        return list_method_points(self.groups)

    @cached_property
    def reference_comparisons(self) -> list[Comparison]:
        """Each method compared with its reference method."""
        return compare_with_references(self.groups)

    @cached_property
    def mark_notes(self) -> list[str]:
        """The meaning of each mark that follows a learner's name."""
        return list_notes(group.learner for group in self.groups)

    @property
    def judged_tasks(self) -> int:
        """Number of judged tasks, as far as the runs have come."""
        return max(point.judged for method in self.methods for point in method.points)

    @property
    def unfinished(self) -> list[tuple[Run, str]]:
        """Runs that have not reached their end, and how far they are."""
        return [
            (run, describe_progress(run.ledger)) for run in self.runs if not run.ledger.complete
        ]

    @cached_property
    def events_differ(self) -> bool:
        """Whether a rule chose other events in some of the runs."""
        ledgers = [run.ledger for run in self.runs if run.header.rule is not None]
        return bool(ledgers) and differ_in_events(ledgers)

    @cached_property
    def tasks(self) -> list[ErrorRow]:
        """Every task that a run has trained, in stream order, with each method's error."""
        return list_error_rows(self.groups)

    def compute_once(self, compute: Callable[["Section"], T]) -> T:
        """Returns `compute(self)`, computed at the first call only: a part's html, tables and
        figures share it.
        """
        if compute not in self._computed:
            self._computed[compute] = compute(self)
        return self._computed[compute]


@dataclass(frozen=True)
class PageContents:
    """Everything that the page shows, for parts across streams; `number` and `title` are used as a
    section's.
    """

    sections: Sequence[Section]
    matrices: Sequence[TransferMatrix]
    evaluations: Sequence[Evaluation] = ()
    studies: Sequence[Study] = ()
    number: str = "all"

    @property
    def answering(self) -> bool:
        """Whether all runs are of adaptive streams, so that their rules are compared."""
        runs = [run for section in self.sections for run in section.runs]
        return bool(runs) and all(is_adaptive(run) for run in runs)

    @property
    def title(self) -> str:
        """The heading; without runs and transfer matrices, of caches and studies alone."""
        if self.answering:
            return "Rules compared"
        return "Across streams" if self.sections or self.matrices else "Dynamic evaluation"
