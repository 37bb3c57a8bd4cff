"""Slices: mean error, and the difference to indep, over tasks that have something in common.

Every trained task counts, S_Tr and S_Ts together, on the protocol's split: under `meta_test` all
errors are test errors, as in the paper.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from nevis_stream.analysis.bootstrap import bound_over_tasks
from nevis_stream.analysis.points import describe_progress, list_task_errors
from nevis_stream.analysis.regret import REFERENCE, find_reference
from nevis_stream.analysis.runs import Run
from nevis_stream.analysis.seeds import SeedGroup, Spread, spread
from nevis_stream.run_directory.records import TrainRecord

NOT_RECORDED = "not recorded"
_SIZES = ((1e3, "< 1k"), (1e4, "1k–10k"), (1e5, "10k–100k"), (math.inf, "> 100k"))
_RESOLUTIONS = (
    (64, "< 64"),
    (128, "64–127"),
    (256, "128–255"),
    (512, "256–511"),
    (math.inf, "≥ 512"),
)
_YEARS = 5


@dataclass(frozen=True)
class Slice:
    """One method on the tasks of one slice.

    Attributes:
      dimension: one of `DIMENSIONS`.
      name: of the slice.
      tasks: on how many of its tasks the method has an error, in every finished run.
      error: the mean over these tasks, spread over seeds.
      pairs: on how many of them the method's indep runs have an error too.
      difference: mean over these pairs of the method's error minus indep's; NaN without a
        reference.
      low, high: 95% interval of the difference, for other tasks like these and other runs.
      reason: why there is no difference or no interval; empty otherwise.
    """

    dimension: str
    name: str
    tasks: int
    error: Spread
    pairs: int = 0
    difference: float = math.nan
    low: float = math.nan
    high: float = math.nan
    reason: str = ""


def compare_slices(group: SeedGroup, runs: Sequence[Run]) -> list[Slice]:
    """Returns a method's slices, the same in the same order for all methods of a stream; empty if
    no run is finished.

    Args:
      group: the method's runs.
      runs: where each run's indep run is looked for.

    Source: NEVIS'22, section 3 (slices by domain, training-set size and resolution, S_Tr and S_Ts
    together on test splits).
    """
    finished = [run for run in group.runs if run.ledger.complete]
    if not finished:
        return []
    references, reason = _references(finished, runs)
    own, indep = _errors(finished), _errors(references)
    method_slices = []
    for dimension, slices_of in DIMENSIONS.items():
        members: dict[tuple, list[str]] = {}
        for train in finished[0].ledger.of_kind(TrainRecord):
            for key in slices_of(train):
                members.setdefault(key, []).append(train.task_id)
        for (_, name), tasks in sorted(members.items()):
            pairs = [(own[task], indep.get(task)) for task in tasks]
            method_slices.append(_slice(dimension, name, pairs, reason))
    return method_slices


def make_table(
    by_label: Mapping[str, Sequence[Slice]], groups: Sequence[SeedGroup]
) -> pd.DataFrame:
    """Returns one row for every method and slice; a method without a finished run has one row with
    the reason.

    Args:
      by_label: the slices of each group, by its label.
      groups: the methods.

    Columns: label, learner, budget, seeds, dimension, slice, tasks, error, error_std (over seeds),
    pairs, difference (to indep), low and high (95%) and reason.
    """
    rows: list[dict[str, Any]] = []
    for group in groups:
        head = {"label": group.label, "learner": group.learner, "budget": group.budget}
        if not by_label[group.label]:
            rows.append(head | {"seeds": 0, "reason": describe_progress(group.runs[0].ledger)})
        for entry in by_label[group.label]:
            error = {"error": entry.error.mean, "error_std": entry.error.std}
            renamed = {"seeds": entry.error.n, "slice": entry.name}
            rows.append(head | vars(entry) | error | renamed)
    frame = pd.DataFrame(rows, columns=_COLUMNS)
    return frame.astype({"tasks": "Int64", "pairs": "Int64"})


_MEANS = ["seeds", "dimension", "slice", "tasks", "error", "error_std"]
_INTERVAL = ["pairs", "difference", "low", "high", "reason"]
_COLUMNS = ["label", "learner", "budget", *_MEANS, *_INTERVAL]


def count_training_samples(train: TrainRecord) -> float:
    """Returns the size of a task's train and dev splits together; NaN if not recorded.

    For a published task this is the published number.
    """
    if train.n_train is not None and train.n_dev is not None:
        return float(train.n_train + train.n_dev)
    return float(train.size or math.nan)


def average_resolution(train: TrainRecord) -> float:
    """Returns the geometric mean of a task's mean height and width, in pixels; NaN if unknown."""
    height, width = train.mean_height, train.mean_width
    return math.sqrt(height * width) if height and width else math.nan


def _part(train: TrainRecord) -> list[tuple]:
    part = (0, "meta-train") if train.meta_split == "train" else (1, "meta-test")
    return [part, (2, "whole stream")]


def _year(train: TrainRecord) -> list[tuple]:
    year = train.year
    if year is None:
        return [(math.inf, NOT_RECORDED)]
    first = year - year % _YEARS
    return [(first, f"{first}–{first + _YEARS - 1}")]


def _find_range(value: float, ranges: Sequence[tuple[float, str]]) -> list[tuple]:
    return [next((each for each in ranges if value < each[0]), (math.inf, NOT_RECORDED))]


DIMENSIONS: Mapping[str, Callable[[TrainRecord], list[tuple]]] = {
    "part of the stream": _part,
    "domain": lambda train: [(0, train.domain or NOT_RECORDED)],
    "training samples": lambda train: _find_range(count_training_samples(train), _SIZES),
    "mean resolution, px": lambda train: _find_range(average_resolution(train), _RESOLUTIONS),
    "year": _year,
}
"""By name: the slices of a task, from its train record, each as (sort key, name of the slice)."""


def _references(finished: Sequence[Run], runs: Sequence[Run]) -> tuple[list[Run], str]:
    """Returns the indep runs of a method's runs, each once; or an empty list and the reason."""
    if finished[0].header.learner.casefold() == REFERENCE:
        return [], "the reference itself"
    references, missing = {}, []
    for run in finished:
        reference, reason = find_reference(run, runs)
        if reference is None:
            missing.append(f"{run.name}: {reason}")
        else:
            references[reference.path] = reference
    return ([], "; ".join(missing)) if missing else (list(references.values()), "")


def _errors(runs: Sequence[Run]) -> dict[str, list[float]]:
    """Every task's error in each of the runs."""
    errors: dict[str, list[float]] = {}
    for run in runs:
        for result in list_task_errors(run.ledger):
            errors.setdefault(result.task_id, []).append(result.error)
    return errors


def _slice(
    dimension: str, name: str, pairs: Sequence[tuple[list, list | None]], reason: str
) -> Slice:
    """Returns a slice.

    Args:
      dimension, name: of the slice.
      pairs: for each of its tasks the method's errors by run, and indep's (None without any).
      reason: why there is no reference; empty if there is one.
    """
    known = [own for own, _ in pairs if np.isfinite(own).all()]
    error = spread(np.mean(known, axis=0).tolist() if known else [])
    both = [(own, indep) for own, indep in pairs if indep and np.isfinite([*own, *indep]).all()]
    if reason or not both:
        reason = reason or "no task with both errors"
        return Slice(dimension, name, len(known), error, reason=reason)
    interval = bound_over_tasks(*(np.array(errors) for errors in zip(*both, strict=True))).possible
    ends = interval.estimate, interval.low, interval.high, interval.reason
    return Slice(dimension, name, len(known), error, len(both), *ends)
