"""Studies how well methods evaluate models that they have not seen: some models of a matrix are
known, the others are new.

The record gets a line after each method and split, and rows that it already has are not computed
again.
"""

import contextlib
import dataclasses
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np

from nevis_stream.dynamic_evaluation import methods
from nevis_stream.dynamic_evaluation.estimates import Estimates, SampleGroup, compute_group_means
from nevis_stream.dynamic_evaluation.method import Evaluator
from nevis_stream.errors import BadInput
from nevis_stream.experiments.evaluation_studies.agreement import (
    compute_mean_absolute_error,
    correlate_ranks,
)
from nevis_stream.experiments.evaluation_studies.model_splits import (
    Models,
    ModelSplit,
    hide_samples,
)
from nevis_stream.experiments.study_record import StudyRecord
from nevis_stream.queries.matrix import ArrayMatrix
from nevis_stream.queries.oracle import MatrixOracle
from nevis_stream.queries.samples import SampleFacts, fill_unknown, is_observed, make_unknown_cells
from nevis_stream.storage import write_file
from nevis_stream.storage.reading import parse_json, read_bytes
from nevis_stream.storage.tables import format_csv, name_files, parse_csv

MEASURES = ("mae", "accuracy_error", "spearman", "kendall", "coverage95")
SEEDS_TOGETHER = 10  # splits after which compiled programs are dropped; shapes may differ
COLUMNS = (
    *("matrix", "method", "budget", "seed", *MEASURES),
    *("seconds", "dataset_errors", "flops"),
)
_NUMBER_TYPES = {"budget": int, "seed": int, **dict.fromkeys((*MEASURES, "seconds"), float)}


@dataclass(frozen=True)
class StudiedMatrix:
    """Values to study.

    Attributes:
      name: its name in the results.
      values: uint8[m, n] of outcomes 0, 1 and 255; or float32[m, n] of scores in [0, 1] and NaN.
      groups: the models' groups (str[m]), each of which is known or new as a whole, or None.
      facts: about the samples; None: all are of one data set, with outcomes or scores from 0 to 1.
      columns: further facts about the models by name, str[m] each.
    """

    name: str
    values: np.ndarray
    groups: np.ndarray | None = None
    facts: SampleFacts | None = None
    columns: Mapping[str, np.ndarray] = field(default_factory=dict)

    def select_known(
        self,
        models: np.ndarray,
        samples: np.ndarray,
        hidden: np.ndarray,
        groups: np.ndarray | None = None,
    ) -> ArrayMatrix:
        """Returns some models, int64 rows, on some samples, int64 columns, as `Matrix`; all
        values on hidden samples, a bool for each column, are unknown. `groups` are those of all
        models, str[m]; None: each model is a group of its own.
        """
        facts = self.facts or SampleFacts(self.values.shape[1])
        values = self.values[np.ix_(models, samples)]
        values[:, hidden] = make_unknown_cells((), values.dtype.kind == "f")
        whole = None if groups is None else groups[models].tolist()
        return ArrayMatrix(values, whole, facts.take(samples))

    @property
    def parts(self) -> "list[StudiedMatrix]":
        """The matrix alone; or, if its data sets differ in direction or range so that there is no
        mean of all, one matrix for each data set, called NAME-DATASET.
        """
        parts = [] if self.facts is None else self.facts.parts
        if len(parts) < 2:
            return [self]
        files = name_files(part.name for part in parts)
        return [
            dataclasses.replace(
                self,
                name=f"{self.name}-{files[part.name]}",
                values=self.values[:, part.columns],
                facts=self.facts.take(part.columns),
            )
            for part in parts
        ]

    @property
    def models(self) -> Models:
        """What is known about the models."""
        facts = self.facts or SampleFacts(self.values.shape[1])
        means = None
        if len(facts.parts) == 1:
            mask = is_observed(self.values)
            weight = mask @ facts.weights
            means = (fill_unknown(self.values) @ facts.weights) / np.where(weight > 0, weight, 1)
            means = -means if facts.parts[0].lower else means
        return Models(len(self.values), self.groups, self.columns, means)


@dataclass(frozen=True)
class StudyDesign:
    """The settings of a study.

    Attributes:
      methods: names.
      budgets: numbers of samples asked of each new model; those above the smallest number of
        samples that a split has (see `count_evaluated`), or too small for a method's policy, are
        left out.
      known: fraction of the models, or of their groups, that is known.
      seeds: number of splits; their seeds are 0, …, seeds - 1.
      new: at most this many of the new models are evaluated, drawn at random; None: all.
      model_split: how known and new models are divided.
      hide: data sets that known models are not observed on (see `hide_samples`); "": none.
      cross_validated: whether methods may cross-validate their intervals; without, they cost a
        fraction.
    """

    methods: Sequence[str]
    budgets: Sequence[int] = (16, 64, 256)
    known: float = 0.6
    seeds: int = 10
    new: int | None = None
    model_split: ModelSplit = ModelSplit()
    hide: str = ""
    cross_validated: bool = True


def choose_answerable(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Chooses models, and the samples that are observed for all of them, so that every cell can be
    asked.

    Models come in order of their holes, fewest first; the number of them with most cells is taken.

    Args:
      values: [m, n] of new models, as in `StudiedMatrix`.

    Returns: int64 rows and columns, ascending; no columns if nothing is observed.
    """
    mask = is_observed(values)
    order = np.argsort(-mask.sum(axis=1), kind="stable")
    shared = np.logical_and.accumulate(mask[order], axis=0)
    best = int(np.argmax(shared.sum(axis=1) * np.arange(1, len(order) + 1)))
    return np.sort(order[: best + 1]), np.flatnonzero(shared[best])


def measure_errors(estimates: Estimates, truth: np.ndarray, facts: SampleFacts) -> dict[str, float]:
    """Returns the errors of new models' estimates, means over the models, and the rank
    correlations.

    `mae` is the fraction of outcomes that are predicted wrongly, or the mean absolute error of
    scores; `accuracy_error` is the absolute error of the (weighted) mean over all samples. Coverage
    is NaN if the method gives no intervals.

    Args:
      estimates: of m models on n samples.
      truth: [m, n] without holes, as in `StudiedMatrix`.
      facts: about the n samples.
    """
    accuracy = facts.mean(truth)
    predicted = estimates.outcomes if truth.dtype == np.uint8 else estimates.values
    spearman, kendall = correlate_ranks(estimates.accuracy, accuracy)
    slack = 1e-9
    inside = (estimates.low - slack <= accuracy) & (accuracy <= estimates.high + slack)
    return {
        "mae": float(compute_mean_absolute_error(predicted, truth).mean()),
        "accuracy_error": float(np.abs(estimates.accuracy - accuracy).mean()),
        "spearman": spearman,
        "kendall": kendall,
        "coverage95": float("nan") if np.isnan(estimates.low).any() else float(inside.mean()),
    }


def compute_dataset_means(facts: SampleFacts, values: np.ndarray) -> list[SampleGroup]:
    """Returns the means of each data set; arguments as of `compute_group_means`."""
    if facts.dataset is None:
        return []
    return compute_group_means(dataclasses.replace(facts, group=None), values)


def measure_dataset_errors(
    estimates: Estimates, truth: np.ndarray, facts: SampleFacts
) -> dict[str, float]:
    """Returns the mean absolute error of the estimated means of each data set, on the scale of its
    scores, by the name of the data set; {} unless there are several data sets.
    """
    pairs = zip(
        compute_dataset_means(facts, estimates.values),
        compute_dataset_means(facts, truth),
        strict=True,
    )
    errors = {
        estimated.dataset: float(np.abs(estimated.means - true.means).mean())
        for estimated, true in pairs
    }
    return errors if len(errors) > 1 else {}


def split(matrix: StudiedMatrix, design: StudyDesign, seed: int) -> tuple[ArrayMatrix, np.ndarray]:
    """Returns the known models of a split, and the new models' values, [m, n].

    Known models may have unknown cells; new models are restricted to the part that
    `choose_answerable` chooses, and known ones to its samples.

    Args:
      matrix: the values to study.
      design: the settings.
      seed: of the split.

    Raises:
      BadInput: nothing is observed of the new models, or nothing of the known ones.
    """
    known, new, columns = _divide(matrix, design, seed)
    truth = matrix.values[np.ix_(new, columns)]
    hidden = np.zeros(len(columns), bool)
    if design.hide:
        dataset = None if matrix.facts is None else matrix.facts.dataset
        hidden = hide_samples(dataset, design.hide, seed)[columns]
    groups = design.model_split.choose_groups(matrix.models)
    known_models = matrix.select_known(known, columns, hidden, groups)
    if not truth.size or not is_observed(known_models.values).any():
        raise BadInput(
            f"{matrix.name}: nothing is observed of the new models, or nothing of the known"
            " models on the same samples."
        )
    return known_models, truth


def _divide(
    matrix: StudiedMatrix, design: StudyDesign, seed: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the known models, the new ones that are evaluated, and the samples, int64 each."""
    known, new = design.model_split.divide(matrix.models, design.known, seed)
    if design.new is not None and design.new < len(new):
        random = np.random.default_rng([seed, design.new])
        new = np.sort(random.choice(new, design.new, replace=False))
    models, columns = choose_answerable(matrix.values[new])
    return known, new[models], columns


def count_evaluated(matrix: StudiedMatrix, design: StudyDesign) -> list[tuple[int, int]]:
    """Returns for each split how many new models are evaluated, and on how many samples (those
    that `choose_answerable` chooses). A matrix without holes has one entry for all splits.
    """
    whole = is_observed(matrix.values).all()
    splits = (_divide(matrix, design, seed) for seed in range(1 if whole else design.seeds))
    return [(len(new), len(columns)) for _, new, columns in splits]


def run_rows(matrix: StudiedMatrix, design: StudyDesign) -> Iterator[dict]:
    """Yields a row of results, by `COLUMNS`, for each method, budget and seed; `new_per_known` is
    the ratio of the numbers of new and known models.

    Seconds and FLOPs are those of the evaluation of all new models together; the first
    budget's include the fit.
    """
    for batch in run_batches(matrix, design):
        yield from batch


def run_batches(
    matrix: StudiedMatrix, design: StudyDesign, done: Callable[..., bool] = lambda *row: False
) -> Iterator[list[dict]]:
    """Yields the rows of each method and seed, one for each budget, as a batch: the first row's
    FLOPs include the fit, so a study that was killed between two budgets computes both again.

    Args:
      matrix: the values to study.
      design: the settings.
      done: takes (method, budget, seed) and returns whether that row is left out.
    """
    most = min(samples for _, samples in count_evaluated(matrix, design))
    if matrix.facts is not None:
        most = min(most, matrix.facts.points)
    for seed in range(design.seeds):
        if seed and seed % SEEDS_TOGETHER == 0:
            jax.clear_caches()
        known_models, truth = split(matrix, design, seed)
        for name in design.methods:
            budgets = [
                budget
                for budget in design.budgets
                if budget <= most and not done(name, budget, seed)
            ]
            if not budgets:
                continue
            least = methods.get(name).policy.find_least_budget(known_models.facts)
            if not (budgets := [budget for budget in budgets if budget >= least]):
                continue
            fit_key, key = jax.random.split(jax.random.key(seed))
            start = time.perf_counter()
            fitted: dict[str, Evaluator] = {}
            batch = []
            for budget in budgets:
                if name not in fitted:
                    method = methods.get(name)
                    if not design.cross_validated:
                        method = dataclasses.replace(method, cross_validated=False)
                    fitted[name] = method.fit(known_models, None, fit_key)
                evaluator = fitted[name]
                estimates = evaluator.evaluate(
                    MatrixOracle(truth), len(truth), budget, jax.random.fold_in(key, budget)
                )
                seconds = time.perf_counter() - start
                batch.append(
                    {
                        "matrix": matrix.name,
                        "method": name,
                        "budget": budget,
                        "seed": seed,
                        **measure_errors(estimates, truth, known_models.facts),
                        "seconds": seconds,
                        "dataset_errors": measure_dataset_errors(
                            estimates, truth, known_models.facts
                        ),
                        "flops": float(estimates.cost.flops),
                        "new_per_known": len(truth) / known_models.shape[0],
                    }
                )
                start = time.perf_counter()
            yield batch


def open_record(file: Path, settings: Mapping[str, Any] | None = None) -> StudyRecord:
    """Opens the record of a study, OUT/study.jsonl, or begins it, with the rows of a table
    OUT/study.csv if an earlier version left only that.

    Args:
      file: of the record.
      settings: see `StudyRecord`.
    """
    return StudyRecord(
        file,
        settings,
        former_settings={"model_split": "", "hide": ""},
        former=lambda: _read_former_cells(file.with_suffix(".csv")),
    )


def read(record: StudyRecord) -> list[dict]:
    """Returns the rows of a study, by `COLUMNS`."""
    return [{name: row[name] for name in COLUMNS} for row in record.rows()]


def run(
    matrices: Iterable[StudiedMatrix], design: StudyDesign, record: StudyRecord
) -> Iterator[dict]:
    """Runs what a study lacks, and yields the rows of each batch (see `run_batches`) after they are
    on record.
    """
    done = {(row["matrix"], row["method"], row["budget"], row["seed"]) for row in record.rows()}
    for matrix in matrices:
        jax.clear_caches()  # a process that keeps the programs of many shapes runs out of memory
        for batch in run_batches(
            matrix, design, lambda *row, name=matrix.name: (name, *row) in done
        ):
            record.add(*_make_cell(batch))
            yield from batch


def write_table(path: Path, record: StudyRecord) -> None:
    """Writes the rows of a study as a csv file, with six digits."""
    rows = []
    for row in read(record):
        errors = {name: float(f"{error:.6g}") for name, error in row["dataset_errors"].items()}
        values = {
            name: float(f"{value:.6g}") if isinstance(value, float) else value
            for name, value in row.items()
        } | {"dataset_errors": json.dumps(errors) if errors else ""}
        rows.append([values.get(name) for name in COLUMNS])
    write_file(path, format_csv(COLUMNS, rows).encode())


def _make_cell(batch: Sequence[dict]) -> tuple[dict, list[dict]]:
    """Returns the cell of a `StudyRecord` that holds a batch of rows, and its result."""
    cell = {name: batch[0][name] for name in ("matrix", "method", "seed")}
    rows = [{name: value for name, value in row.items() if name not in cell} for row in batch]
    return cell | {"budgets": [row["budget"] for row in batch]}, rows


def _read_former_cells(path: Path) -> list[tuple[dict, list[dict]]]:
    """Returns the rows of a csv table as cells of a `StudyRecord`; a row that was cut short is left
    out.
    """
    cells: list[tuple[dict, list[dict]]] = []
    if not path.exists():
        return cells
    for row in parse_csv(read_bytes(path).decode()):
        with contextlib.suppress(TypeError, ValueError):
            names = {name: row[name] for name in ("matrix", "method")}
            numbers = {name: kind(row[name]) for name, kind in _NUMBER_TYPES.items()}
            # files of earlier versions have no such column
            errors = row.get("dataset_errors", "") != "" and parse_json(row["dataset_errors"])
            flops = float(row.get("flops") or "nan")
            values = names | numbers | {"dataset_errors": errors or {}, "flops": flops}
            cells.append(_make_cell([values]))
    return cells
