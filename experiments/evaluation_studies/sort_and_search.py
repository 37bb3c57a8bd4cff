"""Measures Sort & Search against the published rule and the baselines on shared matrices, and its
cost on a synthetic matrix of 1,000 models × 1e6 samples.

  python -m experiments.evaluation_studies.sort_and_search --out=runs/sort_and_search [--matrices=DIR] [--splits=10] [--seed=0]
      [--only=study|scale|cells]

The record in --out has a line for each matrix, split and method, and the study continues where it
stopped; --matrices is matrices/ of NEVIS_STREAM_SHARED by default.
"""  # noqa: E501

import sys
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import jax
import numpy as np
import pandas as pd
from rich.console import Console
from rich.progress import track

from nevis_stream.dynamic_evaluation import methods as all_methods
from nevis_stream.dynamic_evaluation.method import make_context
from nevis_stream.dynamic_evaluation.policy import make_grid
from nevis_stream.dynamic_evaluation.predictors.sort_and_search import predict_by_threshold
from nevis_stream.dynamic_evaluation.sorting import sort
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.experiments import engine
from nevis_stream.experiments.evaluation_studies import SHARED, agreement
from nevis_stream.experiments.scripts import describe, measure_peak
from nevis_stream.experiments.study_record import StudyRecord
from nevis_stream.queries.oracle import MatrixOracle, Responses
from nevis_stream.storage.reading import read_npz

KNOWN_FRACTION = 0.6
NAMES = (
    "published",
    "sort_and_search",
    "sort_and_search_random",
    "sort_and_search_recursive",
    "copy_nearest",
    "random_mean",
    "stratified_mean",
    "single_order_floor",
    "oracle_accuracy_prefix",
)
SHOWN = (8, 64, 512, 4096)  # budgets of the epistemic part
ROWS_AT_ONCE = 20
# FLOPs per second of a float32 matrix product on two cores, to which times are scaled
REFERENCE_PEAK = 365e9


def main(
    out: Path,
    matrices: Path = SHARED,
    splits: int = 10,
    seed: int = 0,
    methods: Sequence[str] = NAMES,
    only: Literal["study", "scale", "cells"] | None = None,
) -> None:
    """Runs the chosen parts and prints the tables; another seed has other splits."""
    print(f"{describe()}\n")
    seeds = range(seed * splits, (seed + 1) * splits)
    files = sorted(matrices.glob("*.npz"))
    if only == "cells":  # only the errors of cells, for many splits
        print_cell_errors(files, seeds)
    if only in (None, "study"):
        run_study(files, seeds, methods, out)
    if only in (None, "scale"):
        scale(out)


def run_study(files: list[Path], splits: range, names: Sequence[str], out: Path) -> None:
    """Evaluates methods on every matrix and prints means over matrices."""
    record = StudyRecord(out / "study.jsonl", {"known": KNOWN_FRACTION})
    for file in track(files, "matrices", console=Console(file=sys.stderr)):
        add_one_matrix(record, file, splits, names)
    chosen = [file.stem for file in files], list(splits), names
    rows = pd.DataFrame(record.rows())
    for column, values in zip(("matrix", "split", "method"), chosen, strict=True):
        rows = rows[rows[column].isin(values)]
    settings = f"splits {splits.start} to {splits.stop - 1}, {KNOWN_FRACTION:.0%} of models known"
    print(f"{len(files)} matrices, {settings}; means over models, splits, matrices.\n")
    print_table(rows, "mae", "MAE of cells")
    print_table(rows, "accuracy_error", "absolute error of the accuracy")
    print_table(rows, "spearman", "Spearman")
    if "coverage" in rows:
        print_table(rows[rows.coverage.notna()], "coverage", "coverage of the 95% interval")
        print_table(rows[rows.coverage.notna()], "width", "width of the 95% interval")
    compare(rows)
    print_error_parts(rows)
    print_correlations(files)


def print_cell_errors(files: list[Path], splits: range) -> None:
    """Prints the errors of cells by the library's search and by the published rule."""
    rows = []
    for file in track(files, "matrices", console=Console(file=sys.stderr)):
        matrix = read_npz(file)["correct"]
        n = matrix.shape[1]
        for split in splits:
            known, new = divide_models(matrix, split)
            rank, published = sort(known), all_methods.get("published").fit(known, None, None)
            rows_new = np.arange(len(new))
            for budget in (8 << power for power in range(20) if 8 << power <= n // 2):
                answers = MatrixOracle(new)(make_grid(rank.order, len(new), budget))
                cells = predict_by_threshold(rank, answers, make_context()).astype(np.uint8)
                cells[rows_new[:, None], answers.samples] = answers.values
                script = published.evaluate(MatrixOracle(new), len(new), budget, None)
                for name, outcomes in (("sort_and_search", cells), ("published", script.outcomes)):
                    wrong = agreement.compute_mean_absolute_error(outcomes, new).mean()
                    rows.append(
                        {
                            "matrix": file.stem,
                            "split": split,
                            "budget": budget,
                            "method": name,
                            "mae": wrong,
                        }
                    )
    print(
        f"{len(files)} matrices, splits {splits.start} to {splits.stop - 1}, {KNOWN_FRACTION:.0%}"
        " of models known.\n"
    )
    print_table(pd.DataFrame(rows), "mae", "MAE of cells")
    compare(pd.DataFrame(rows))


def divide_models(matrix: np.ndarray, split: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the rows of known and of new models."""
    models = np.random.default_rng(split).permutation(len(matrix))
    cut = round(KNOWN_FRACTION * len(matrix))
    return matrix[models[:cut]], matrix[models[cut:]]


def add_one_matrix(record: StudyRecord, file: Path, splits: range, names: Sequence[str]) -> None:
    """Adds a row for each budget of the splits and methods of a matrix that are missing."""
    matrix = read_npz(file)["correct"]
    n = matrix.shape[1]
    budgets = [8 << power for power in range(20) if 8 << power <= n // 2]
    for split in splits:
        cells = [{"matrix": file.stem, "split": split, "method": name} for name in names]
        if not (cells := record.missing(cells)):
            continue
        known, new = divide_models(matrix, split)
        rank, true = sort(known), new.mean(axis=1)
        for cell in cells:
            name, rows = cell["method"], []
            key, fit_key = jax.random.split(jax.random.key(split))
            evaluator = all_methods.get(name).fit(known, None, fit_key)
            for budget in budgets:
                estimates = evaluator.evaluate(MatrixOracle(new), len(new), budget, key)
                row = {"n": n, "budget": budget}
                accuracy, low, high = estimates.accuracy, estimates.low, estimates.high
                row["mae"] = agreement.compute_mean_absolute_error(estimates.outcomes, new).mean()
                row["accuracy_error"] = np.abs(accuracy - true).mean()
                row["spearman"], row["kendall"] = agreement.correlate_ranks(accuracy, true)
                if not np.isnan(low).all():
                    row["coverage"] = ((low <= true) & (true <= high)).mean()
                    row["width"] = (high - low).mean()
                if name == "sort_and_search":
                    predicted = predict_by_threshold(rank, estimates.answers, make_context())
                    parts_now = vars(agreement.decompose(new, rank.order, predicted))
                    row |= {part: errors.mean() for part, errors in parts_now.items()}
                rows.append(row)
            record.add(cell, rows)


def print_table(rows: pd.DataFrame, value: str, title: str) -> None:
    """Prints a value by method and budget.

    The mean over splits, then over the matrices that have the budget.
    """
    means = (
        rows.groupby(["method", "budget", "matrix"])[value]
        .mean()
        .groupby(["method", "budget"])
        .mean()
        .unstack()
    )
    table = (
        [f"`{name}`", *("" if np.isnan(mean) else f"{mean:.4f}" for mean in means.loc[name])]
        for name in NAMES
        if name in means.index
    )
    engine.print_table(" | ".join([title, *(f"{budget}:" for budget in means.columns)]), table)
    print()


def compare(rows: pd.DataFrame) -> None:
    """Prints Sort & Search against the published rule in each cell, paired over splits.

    A cell is a matrix and a budget.
    """
    wide = rows.pivot_table(index=["matrix", "budget", "split"], columns="method", values="mae")
    gain = (wide["sort_and_search"] - wide["published"]).groupby(["matrix", "budget"])
    mean, error = gain.mean(), gain.std(ddof=1) / np.sqrt(gain.size())
    worse = mean[mean > 0]
    print(
        f"Sort & Search is below the published rule in {(mean < 0).sum()} of {len(mean)} cells of"
        " matrix and budget;"
    )
    print(
        f"above by more than two standard errors: {(mean > 2 * error).sum()};{count_by_tens(gain)}"
    )
    above = [f"{name} {budget} ({value:+.4f})" for (name, budget), value in worse.items()]
    print(f"above in any: {', '.join(above) or 'none'}.")
    differences = mean.groupby("budget").mean().items()
    by_budget = ", ".join(f"{budget}: {value:+.4f}" for budget, value in differences)
    print(f"mean difference at each budget: {by_budget}\n")


def count_by_tens(gain) -> str:
    """Returns in words in how many cells Sort & Search is worse by two standard errors, for every
    ten splits on their own; "" for ten splits or fewer.
    """
    values = np.stack([gains.to_numpy() for _, gains in gain])
    tens = [values[:, first : first + 10] for first in range(0, values.shape[1], 10)]
    above = [
        int((ten.mean(axis=1) > 2 * ten.std(axis=1, ddof=1) / np.sqrt(10)).sum()) for ten in tens
    ]
    return (
        f" in each ten of the splits alone: {', '.join(map(str, above))};" if len(tens) > 1 else ""
    )


def print_error_parts(rows: pd.DataFrame) -> None:
    """Prints the parts of the error of Sort & Search's thresholded prediction, before the observed
    outcomes are put back, and the fit of its decay.
    """
    own = rows[rows.method == "sort_and_search"]
    means = own.groupby(["matrix", "budget"])[["total", "aleatoric", "epistemic"]].mean()
    rows = []
    for name, errors in means.groupby("matrix"):
        budgets = errors.index.get_level_values("budget").to_numpy()
        if len(budgets) > 3:
            decay = agreement.fit_decay(budgets, errors.total.to_numpy())
            epistemic = dict(zip(budgets, errors.epistemic, strict=True))
            at = [f"{epistemic[b]:.3f}" if b in epistemic else "" for b in SHOWN]
            row = [name, f"{decay.a:.3f}", f"{decay.rate:.4f}", f"{decay.plateau:.3f}"]
            most = f"{epistemic[budgets[-1]]:.3f} ({budgets[-1]})"
            rows.append([*row, f"{errors.aleatoric.mean():.3f}", *at, most])
    shown = " | ".join(f"epistemic at {budget}:" for budget in SHOWN)
    heads = f"matrix | a: | rate: | plateau: | aleatoric: | {shown} | at the most:"
    engine.print_table(heads, rows)
    print()


def print_correlations(files: list[Path]) -> None:
    """Prints the correlations of models' outcomes (paper, Appendix D)."""
    rows = []
    for file in files:
        correlations = agreement.correlate_models(read_npz(file)["correct"])
        pairs = correlations[np.triu_indices(len(correlations), 1)]
        pairs = pairs[~np.isnan(pairs)]
        numbers = f"{pairs.mean():.3f}", f"{(pairs > 0).mean():.1%}", f"{pairs.min():.3f}"
        rows.append([file.stem, len(pairs), *numbers])
    heads = "matrix | pairs of models: | mean correlation: | positive: | least:"
    engine.print_table(heads, rows)
    print()


def scale(out: Path) -> None:
    """Prints the cost of 1,000 models × 1,000,000 samples, and of one more model."""
    models, n = 1000, 1_000_000
    cache = make_synthetic_cache(out / f"{models}x{n}", models, n)
    peak = 2 * measure_peak()
    fraction = peak / REFERENCE_PEAK
    print(
        f"matrix product: {peak / 1e9:.0f} GFLOP/s of two cores; scaled seconds are those times"
        f" {fraction:.2f}; best of 5.\n"
    )
    engine.print_table("work | CPU s: | scaled: | MB allocated at most:", ())

    def line(name, work):
        tracemalloc.start()
        work()
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        spent = min(engine.time_calls(work, 5))
        numbers = f"{spent:.4f}", f"{spent * fraction:.4f}", f"{most / 1e6:.0f}"
        engine.print_row([name, *numbers])

    line("read the rows' warm pages", lambda: [right.sum() for right, _ in cache.packed_rows()])
    line("sort by sum", lambda: sort(cache).order)
    rank = sort(cache)
    rank.order  # noqa: B018
    rank.place  # noqa: B018
    new = cache.matrix([0])

    def add():
        cells = make_grid(rank.order, 1, 2048)
        predict_by_threshold(rank, Responses(cells, new[:, cells.samples[0]]), make_context())

    line("add a model, n' = 2,048, without inference", add)
    line("add its row to the rank and sort again", lambda: rank.add(new).order)


def make_synthetic_cache(path: Path, models: int, n: int) -> EvaluationCache:
    """Returns a cache of models of different ability on samples of different difficulty; makes it
    if there is none.
    """
    cache = EvaluationCache(path, create=True)
    random = np.random.default_rng(0)
    difficulty, ability = (
        random.normal(size=n).astype(np.float32),
        random.normal(size=models).astype(np.float32),
    )
    samples = np.array([f"sample/{column}" for column in range(n)])
    for first in range(cache.shape[0], models, ROWS_AT_ONCE):
        able = ability[first : first + ROWS_AT_ONCE, None]
        right = np.random.default_rng(first).random((len(able), n), np.float32) < 1 / (
            1 + np.exp(2 * (difficulty - able))
        )
        names = [f"model/{model}" for model in range(first, first + len(able))]
        cache.append_rows(names, np.arange(n) if first else samples, right.astype(np.uint8))
    return cache


if __name__ == "__main__":
    engine.start(main, keep_programs=False)
