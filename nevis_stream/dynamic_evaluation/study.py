"""How well methods evaluate models that they have not seen: part of a matrix's models is known, the
others are new.

Rows of results are appended as they come, and what a file of results already holds is not computed
again.
"""

import csv
import io
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np

from nevis_stream.dynamic_evaluation import methods
from nevis_stream.dynamic_evaluation.asking import MatrixAsk
from nevis_stream.dynamic_evaluation.estimates import Estimates
from nevis_stream.dynamic_evaluation.matrix import UNKNOWN, check_outcomes
from nevis_stream.dynamic_evaluation.metrics import mean_absolute_error, rank_agreement
from nevis_stream.errors import BadInput
from nevis_stream.storage import write_file
from nevis_stream.storage.npz import read_npz

COLUMNS = (
    "matrix",
    "method",
    "budget",
    "seed",
    "mae",
    "accuracy_error",
    "spearman",
    "kendall",
    "coverage95",
    "seconds",
)


@dataclass(frozen=True)
class Matrix:
    """Outcomes to study.

    Args:
      name: what results call it by.
      outcomes: uint8[m, n] of 0, 1 and 255.
      groups: the models' groups (str[m]), which are known or new as a whole, or None.
    """

    name: str
    outcomes: np.ndarray
    groups: np.ndarray | None = None


@dataclass(frozen=True)
class Protocol:
    """What is studied.

    Args:
      methods: names.
      budgets: samples asked of each new model; budgets above n are left out.
      known: share of the models, or of their groups, that is known.
      seeds: seeds 0 ... seeds - 1 of the split.
    """

    methods: Sequence[str]
    budgets: Sequence[int] = (16, 64, 256)
    known: float = 0.6
    seeds: int = 10


def load(path: Path) -> Matrix:
    """Reads a matrix from an npz file: `correct`, uint8[m, n], and optionally `group`, str[m].

    Raises:
      BadInput: no such file, no such array, or not outcomes.
    """
    arrays = read_npz(path, ("correct", "group"))
    if "correct" not in arrays:
        raise BadInput(f"{path}: has no array `correct`, uint8[models, samples].")
    groups = arrays["group"].astype(str) if "group" in arrays else None
    try:
        return Matrix(path.stem, check_outcomes(arrays["correct"]), groups)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None


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


def answerable(outcomes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Chooses new models, and samples that all of them know, so that every question has an answer.

    Models with the fewest holes come first; as many are taken as give the most cells.

    Args:
      outcomes: uint8[m, n] of 0, 1 and 255.

    Returns: rows and columns, ascending; no column where no model knows anything.
    """
    there = outcomes != UNKNOWN
    order = np.argsort(-there.sum(axis=1), kind="stable")
    shared = np.logical_and.accumulate(there[order], axis=0)
    best = int(np.argmax(shared.sum(axis=1) * np.arange(1, len(order) + 1)))
    return np.sort(order[: best + 1]), np.flatnonzero(shared[best])


def scored(estimate: Estimates, truth: np.ndarray) -> dict[str, float]:
    """Returns the scores of new models' estimates, means over the models; of rankings one number
    each.

    Coverage is NaN where the method has no intervals; accuracies are those over known cells of the
    truth, uint8[m, n].
    """
    there = truth != UNKNOWN
    accuracy = (truth == 1).sum(axis=1) / there.sum(axis=1)
    spearman, kendall = rank_agreement(estimate.accuracy, accuracy)
    slack = 1e-9
    inside = (estimate.low - slack <= accuracy) & (accuracy <= estimate.high + slack)
    return {
        "mae": float(mean_absolute_error(estimate.outcomes, truth).mean()),
        "accuracy_error": float(np.abs(estimate.accuracy - accuracy).mean()),
        "spearman": spearman,
        "kendall": kendall,
        "coverage95": float("nan") if np.isnan(estimate.low).any() else float(inside.mean()),
    }


def rows(
    matrix: Matrix, protocol: Protocol, done: Callable[..., bool] = lambda *cell: False
) -> Iterator[dict]:
    """Yields a row of results, by `COLUMNS`, for each method, budget and seed.

    Known models may have unknown cells, new ones not, as nobody could answer for them: see
    `answerable`. Seconds are of the evaluation alone; the fit comes to those of the first budget.

    Args:
      matrix: what to study.
      protocol: how.
      done: called with (method, budget, seed), says whether that row is there already.
    """
    for seed in range(protocol.seeds):
        known, new = split(len(matrix.outcomes), matrix.groups, protocol.known, seed)
        models, columns = answerable(matrix.outcomes[new])
        truth, seen = (
            matrix.outcomes[np.ix_(new[models], columns)],
            matrix.outcomes[np.ix_(known, columns)],
        )
        if not truth.size or (seen == UNKNOWN).all():
            raise BadInput(
                f"{matrix.name}: nothing is known of the new models, or nothing of the others on"
                " the same samples."
            )
        for name in protocol.methods:
            budgets = [
                budget
                for budget in protocol.budgets
                if budget <= len(columns) and not done(name, budget, seed)
            ]
            if not budgets:
                continue
            fit_key, key = jax.random.split(jax.random.key(seed))
            start = time.perf_counter()
            groups = None if matrix.groups is None else list(matrix.groups[known])
            evaluator = methods.get(name).fit(seen, groups, fit_key)
            for budget in budgets:
                estimate = evaluator.evaluate(
                    MatrixAsk(truth), len(truth), budget, jax.random.fold_in(key, budget)
                )
                scores = scored(estimate, truth)
                seconds = time.perf_counter() - start
                yield {
                    "matrix": matrix.name,
                    "method": name,
                    "budget": budget,
                    "seed": seed,
                    **scores,
                    "seconds": seconds,
                }
                start = time.perf_counter()


def read(path: Path) -> list[dict]:
    """Returns the rows of a file of results, [] if there is none; a torn last row, left by a kill,
    is left out.
    """
    if not path.exists():
        return []
    with open(path, newline="") as file:
        found = [row for row in csv.DictReader(file) if row["seconds"]]
    kinds = {"matrix": str, "method": str, "budget": int, "seed": int}
    return [{name: kinds.get(name, float)(row[name]) for name in COLUMNS} for row in found]


def run(matrices: Iterable[Matrix], protocol: Protocol, path: Path) -> Iterator[dict]:
    """Runs a study, appends each row to a csv file and yields it; goes on where that file ends."""
    before = read(path)
    there = {(row["matrix"], row["method"], row["budget"], row["seed"]) for row in before}
    write(path, before)
    for matrix in matrices:
        for row in rows(matrix, protocol, lambda *cell, name=matrix.name: (name, *cell) in there):
            with open(path, "a", newline="") as file:
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
    return {
        name: f"{value:.6g}" if isinstance(value, float) else value for name, value in row.items()
    }
