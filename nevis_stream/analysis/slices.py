"""Slices: mean error, and the difference to Indep, over tasks that have something in common.

Every trained task counts, S_Tr and S_Ts together, on the protocol's split: under `meta_test` all
are test errors, as in the paper.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from nevis_stream.analysis.bootstrap import over_tasks
from nevis_stream.analysis.judged import task_errors
from nevis_stream.analysis.points import unfinished
from nevis_stream.analysis.regret import REFERENCE, reference_of
from nevis_stream.analysis.runs import Run
from nevis_stream.analysis.seeds import SeedGroup, Spread, spread
from nevis_stream.run_directory.records import TrainRecord

NOT_RECORDED = "not recorded"
_PARTS = {"train": "meta-train", "test": "meta-test"}
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
      tasks: how many of its tasks the method has an error on, in every finished run.
      error: the mean over these tasks, spread over seeds.
      pairs: how many of them the method's Indep runs have an error on too.
      difference: mean over these pairs of the method's error minus Indep's; NaN without a
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


def slices(group: SeedGroup, runs: Sequence[Run]) -> list[Slice]:
    """Returns a method's slices, the same in the same order for all methods of a stream; none where
    no run is finished.

    Args:
      group: the method's runs.
      runs: where each run's Indep run is looked for.

    Source: NEVIS'22, section 3 (slices by domain, training-set size and resolution, S_Tr and S_Ts
    together on test splits).
    """
    finished = [run for run in group.runs if run.ledger.complete]
    if not finished:
        return []
    references, why = _references(finished, runs)
    facts = {train.task_id: train for train in finished[0].ledger.of_kind(TrainRecord)}
    ours, theirs = _errors(finished), _errors(references)
    found = []
    for dimension, slice_of in DIMENSIONS.items():
        members: dict[tuple, list[str]] = {}
        for task_id, train in facts.items():
            for place in slice_of(train):
                members.setdefault(place, []).append(task_id)
        for (_, name), tasks in sorted(members.items()):
            found.append(
                _slice(
                    dimension, name, [ours[t] for t in tasks], [theirs.get(t) for t in tasks], why
                )
            )
    return found


def table(found: Mapping[str, Sequence[Slice]], groups: Sequence[SeedGroup]) -> pd.DataFrame:
    """Returns one row for every method and slice; a method without a finished run has one row with
    the reason.

    Args:
      found: the slices of each group, by its label.
      groups: the methods.

    Columns: label, learner, budget, seeds, dimension, slice, tasks, error, error_std (over seeds),
    pairs, difference (to Indep), low and high (95%) and reason.
    """
    rows: list[dict[str, Any]] = []
    for group in groups:
        head = {"label": group.label, "learner": group.learner, "budget": group.budget}
        if not found[group.label]:
            rows.append(head | {"seeds": 0, "reason": unfinished(group.runs[0].ledger)})
        for one in found[group.label]:
            row = head | {
                "seeds": one.error.n,
                "dimension": one.dimension,
                "slice": one.name,
                "tasks": one.tasks,
            }
            row |= {"error": one.error.mean, "error_std": one.error.std, "pairs": one.pairs}
            rows.append(
                row | {name: getattr(one, name) for name in ("difference", "low", "high", "reason")}
            )
    columns = [
        "label",
        "learner",
        "budget",
        "seeds",
        "dimension",
        "slice",
        "tasks",
        "error",
        "error_std",
        "pairs",
    ]
    frame = pd.DataFrame(rows, columns=[*columns, "difference", "low", "high", "reason"])
    return frame.astype({"tasks": "Int64", "pairs": "Int64"})


def training_samples(train: TrainRecord) -> float:
    """Returns a task's samples to train on and to choose by (train and dev), NaN where not
    recorded.

    A published task has the printed number of both together.
    """
    own = train.n_train, train.n_dev
    if None not in own:
        return float(sum(own))
    return float(train.size or math.nan)


def resolution(train: TrainRecord) -> float:
    """Returns the geometric mean of a task's mean height and width in pixels, NaN where not
    recorded.
    """
    height, width = train.mean_height, train.mean_width
    return math.sqrt(height * width) if height and width else math.nan


def _part(train: TrainRecord) -> list[tuple]:
    return [
        (_PARTS[train.meta_split] != "meta-train", _PARTS[train.meta_split]),
        (2, "whole stream"),
    ]


def _domain(train: TrainRecord) -> list[tuple]:
    return [(0, train.domain or NOT_RECORDED)]


def _year(train: TrainRecord) -> list[tuple]:
    year = train.year
    if year is None:
        return [(math.inf, NOT_RECORDED)]
    first = year - year % _YEARS
    return [(first, f"{first}–{first + _YEARS - 1}")]


def _below(value: float, steps: Sequence[tuple[float, str]]) -> list[tuple]:
    return [
        next(((limit, name) for limit, name in steps if value < limit), (math.inf, NOT_RECORDED))
    ]


DIMENSIONS: Mapping[str, Callable[[TrainRecord], list[tuple]]] = {
    "part of the stream": _part,
    "domain": _domain,
    "training samples": lambda train: _below(training_samples(train), _SIZES),
    "mean resolution, px": lambda train: _below(resolution(train), _RESOLUTIONS),
    "year": _year,
}
"""By name: which slices a task belongs to, from its train record; each as (what to sort by, name).
"""


def _references(finished: Sequence[Run], runs: Sequence[Run]) -> tuple[list[Run], str]:
    """The Indep runs of a method's runs, each once, or none and why."""
    if finished[0].header.learner.casefold() == REFERENCE:
        return [], "the reference itself"
    found = [(run, *reference_of(run, runs)) for run in finished]
    missing = [f"{run.name}: {why}" for run, reference, why in found if reference is None]
    if missing:
        return [], "; ".join(missing)
    return list({reference.path: reference for _, reference, _ in found}.values()), ""


def _errors(runs: Sequence[Run]) -> dict[str, list[float]]:
    """Every task's error in each of the runs."""
    errors: dict[str, list[float]] = {}
    for run in runs:
        for result in task_errors(run.ledger):
            errors.setdefault(result.task_id, []).append(result.error)
    return errors


def _slice(dimension: str, name: str, ours: list, theirs: list, why: str) -> Slice:
    known = [errors for errors in ours if np.isfinite(errors).all()]
    error = spread(np.mean(known, axis=0).tolist() if known else [])
    both = [
        pair
        for pair in zip(ours, theirs, strict=True)
        if pair[1] and np.isfinite([*pair[0], *pair[1]]).all()
    ]
    if why or not both:
        return Slice(dimension, name, len(known), error, reason=why or "no task with both errors")
    interval = over_tasks(*(np.array(errors) for errors in zip(*both, strict=True))).possible
    ends = interval.estimate, interval.low, interval.high, interval.reason
    return Slice(dimension, name, len(known), error, len(both), *ends)
