"""How well methods evaluate models that they have not seen: part of a matrix's models is known, the
others are new.

Rows of results are appended as they come, and what a file of results already holds is not computed
again.
"""

import csv
import io
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np

from nevis_stream.dynamic_evaluation import methods
from nevis_stream.dynamic_evaluation.agreement import mean_absolute_error, rank_agreement
from nevis_stream.dynamic_evaluation.asking import MatrixAsk
from nevis_stream.dynamic_evaluation.estimates import Estimates
from nevis_stream.dynamic_evaluation.known import InMemory
from nevis_stream.dynamic_evaluation.matrix import observed
from nevis_stream.dynamic_evaluation.sample_groups import means_by_dataset
from nevis_stream.dynamic_evaluation.samples import SampleFacts
from nevis_stream.errors import BadInput
from nevis_stream.storage import write_file

MEASURES = ("mae", "accuracy_error", "spearman", "kendall", "coverage95")
COLUMNS = ("matrix", "method", "budget", "seed", *MEASURES, "seconds", "dataset_errors")
_NUMBERS = {"budget": int, "seed": int, **dict.fromkeys((*MEASURES, "seconds"), float)}


@dataclass(frozen=True)
class Matrix:
    """Values to study.

    Attributes:
      name: what results call it by.
      values: uint8[m, n] of outcomes 0, 1 and 255; or float32[m, n] of scores in [0, 1] and NaN.
      groups: the models' groups (str[m]), which are known or new as a whole, or None.
      facts: about the samples; None: nothing is known of them.
    """

    name: str
    values: np.ndarray
    groups: np.ndarray | None = None
    facts: SampleFacts | None = None

    def known(self, models: np.ndarray, samples: np.ndarray) -> InMemory:
        """Returns some models, int64 rows, on some samples, int64 columns, as methods read them."""
        groups = None if self.groups is None else self.groups[models].tolist()
        facts = self.facts or SampleFacts(self.values.shape[1])
        return InMemory(self.values[np.ix_(models, samples)], groups, facts.take(samples))


@dataclass(frozen=True)
class StudyDesign:
    """What is tried.

    Attributes:
      methods: names.
      budgets: samples asked of each new model; budgets above n are left out.
      known: share of the models, or of their groups, that is known.
      seeds: seeds 0 ... seeds - 1 of the split.
    """

    methods: Sequence[str]
    budgets: Sequence[int] = (16, 64, 256)
    known: float = 0.6
    seeds: int = 10


def split(
    models: int, groups: np.ndarray | None, known: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draws which models are known, groups as a whole: indices of the known and of the new ones,
    ascending.

    Raises:
      BadInput: a share that leaves no known or no new group.
    """
    _, group = np.unique(np.arange(models) if groups is None else groups, return_inverse=True)
    count = int(group.max()) + 1
    chosen = round(known * count)
    if not 0 < chosen < count:
        raise BadInput(
            f"a known share of {known} of {count} models or groups leaves no known or no new one."
        )
    is_known = np.isin(group, np.random.default_rng(seed).permutation(count)[:chosen])
    return np.flatnonzero(is_known), np.flatnonzero(~is_known)


def answerable(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Chooses new models, and samples that all of them know, so that every question has an answer.

    Models with the fewest holes come first; as many are taken as give the most cells.

    Args:
      values: [m, n], as in `Matrix`.

    Returns: rows and columns, ascending; no column where no model knows anything.
    """
    there = observed(values)
    order = np.argsort(-there.sum(axis=1), kind="stable")
    shared = np.logical_and.accumulate(there[order], axis=0)
    best = int(np.argmax(shared.sum(axis=1) * np.arange(1, len(order) + 1)))
    return np.sort(order[: best + 1]), np.flatnonzero(shared[best])


def measures(estimates: Estimates, truth: np.ndarray, facts: SampleFacts) -> dict[str, float]:
    """Returns how far new models' estimates are from the truth, means over the models; of rankings
    one number each.

    `mae` is the share of outcomes predicted wrongly, or of scores the mean absolute error;
    `accuracy_error` that of the (weighted) mean over all samples. Coverage is NaN where the method
    has no intervals.

    Args:
      estimates: of m models on n samples.
      truth: [m, n] without holes, as in `Matrix`.
      facts: about the n samples.
    """
    accuracy = facts.mean(truth)
    predicted = estimates.outcomes if truth.dtype == np.uint8 else estimates.values
    spearman, kendall = rank_agreement(estimates.accuracy, accuracy)
    slack = 1e-9
    inside = (estimates.low - slack <= accuracy) & (accuracy <= estimates.high + slack)
    return {
        "mae": float(mean_absolute_error(predicted, truth).mean()),
        "accuracy_error": float(np.abs(estimates.accuracy - accuracy).mean()),
        "spearman": spearman,
        "kendall": kendall,
        "coverage95": float("nan") if np.isnan(estimates.low).any() else float(inside.mean()),
    }


def dataset_errors(estimates: Estimates, truth: np.ndarray, facts: SampleFacts) -> dict[str, float]:
    """Returns the mean absolute error of each data set's mean, in the range of its scores, by name;
    {} unless there are several.
    """
    pairs = zip(
        means_by_dataset(facts, estimates.values), means_by_dataset(facts, truth), strict=True
    )
    errors = {
        estimated.dataset: float(np.abs(estimated.means - true.means).mean())
        for estimated, true in pairs
    }
    return errors if len(errors) > 1 else {}


def rows(
    matrix: Matrix, design: StudyDesign, done: Callable[..., bool] = lambda *cell: False
) -> Iterator[dict]:
    """Yields a row of results, by `COLUMNS`, for each method, budget and seed.

    Known models may have unknown cells; of new ones only what `answerable` chooses is used.
    Seconds are of the evaluation alone; the fit is included in those of the first budget.

    Args:
      matrix: what to study.
      design: what is tried.
      done: called with (method, budget, seed), says whether that row is there already.
    """
    for seed in range(design.seeds):
        known, new = split(len(matrix.values), matrix.groups, design.known, seed)
        models, columns = answerable(matrix.values[new])
        truth, seen = matrix.values[np.ix_(new[models], columns)], matrix.known(known, columns)
        if not truth.size or not observed(seen.values).any():
            raise BadInput(
                f"{matrix.name}: nothing is known of the new models, or nothing of the others on"
                " the same samples."
            )
        for name in design.methods:
            budgets = [
                budget
                for budget in design.budgets
                if budget <= len(columns) and not done(name, budget, seed)
            ]
            if not budgets:
                continue
            fit_key, key = jax.random.split(jax.random.key(seed))
            start = time.perf_counter()
            evaluator = methods.get(name).fit(seen, None, fit_key)
            for budget in budgets:
                estimates = evaluator.evaluate(
                    MatrixAsk(truth), len(truth), budget, jax.random.fold_in(key, budget)
                )
                seconds = time.perf_counter() - start
                yield {
                    "matrix": matrix.name,
                    "method": name,
                    "budget": budget,
                    "seed": seed,
                    **measures(estimates, truth, seen.facts),
                    "seconds": seconds,
                    "dataset_errors": dataset_errors(estimates, truth, seen.facts),
                }
                start = time.perf_counter()


def read(path: Path) -> list[dict]:
    """Returns the rows of a file of results, [] if there is none; a torn last row, left by a kill,
    is left out.
    """
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["seconds"] and None not in row]
    return [row for row in map(_parsed, rows) if row]


def _parsed(row: dict[str, str | None]) -> dict | None:
    """Returns a row's values; None where a kill cut it."""
    if row.get("dataset_errors", "") is None:  # earlier versions had no such column
        return None
    try:
        numbers = {name: kind(row[name]) for name, kind in _NUMBERS.items()}
        errors = json.loads(row.get("dataset_errors") or "{}")
    except ValueError:
        return None
    return {"matrix": row["matrix"], "method": row["method"]} | numbers | {"dataset_errors": errors}


def run(matrices: Iterable[Matrix], design: StudyDesign, path: Path) -> Iterator[dict]:
    """Runs a study, appends each row to a csv file and yields it; goes on where that file ends."""
    before = read(path)
    there = {(row["matrix"], row["method"], row["budget"], row["seed"]) for row in before}
    write(path, before)
    for matrix in matrices:
        for row in rows(matrix, design, lambda *cell, name=matrix.name: (name, *cell) in there):
            with open(path, "a", newline="", encoding="utf-8") as file:
                csv.DictWriter(file, COLUMNS, lineterminator="\n").writerow(_text(row))
            yield row


def write(path: Path, found: Iterable[dict]) -> None:
    """Writes a file of results anew."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(_text, found))
    write_file(path, text.getvalue().encode())


def _text(row: dict) -> dict:
    errors = {name: float(f"{value:.6g}") for name, value in row["dataset_errors"].items()}
    return {
        name: f"{value:.6g}" if isinstance(value, float) else value for name, value in row.items()
    } | {"dataset_errors": json.dumps(errors) if errors else ""}
