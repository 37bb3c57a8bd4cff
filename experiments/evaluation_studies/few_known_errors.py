"""Compares the errors of the default with those of single methods where few models are known.

    python -m experiments.evaluation_studies.few_known_errors run --out=FOLDER [--splits=0:6]
    python -m experiments.evaluation_studies.few_known_errors table --out=FOLDER

9 or 18 models of a matrix are known, drawn at random; new ones answer 50 samples. `default` is what
`add-model` chooses, `unguarded` the same method as it is. `run` adds what FOLDER/study.jsonl lacks,
one split of all matrices after the other; ProEval is used as in `beside_proeval`.
"""

import functools
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import jax
import numpy as np
import pandas as pd

from nevis_stream.dynamic_evaluation import methods
from nevis_stream.experiments import engine
from nevis_stream.experiments.evaluation_studies import SHARED, method_study
from nevis_stream.experiments.evaluation_studies.any_model import load_matrix
from nevis_stream.experiments.evaluation_studies.beside_proeval import (
    DEFAULT,
    PROEVAL,
    run_proeval,
)
from nevis_stream.experiments.evaluation_studies.method_study import StudyDesign
from nevis_stream.experiments.methods import choice
from nevis_stream.experiments.scripts import describe
from nevis_stream.experiments.study_record import StudyRecord
from nevis_stream.queries.oracle import MatrixOracle

MATRICES = ("zeroeval_crux", "cifar10.1_v6", "alpaca_eval2", "metabench_gsm8k", "mmlu_pro")
KNOWN, BUDGET, NEW = (9, 18), 50, 10
UNGUARDED, BESIDE = "unguarded", ("recommended", PROEVAL)
METHODS = (DEFAULT, UNGUARDED, "recommended", "adaptive_testing", PROEVAL)
BAR, DRAWS = 1.05, 1000


def measure(folder: Path, matrix: str, known: int, seed: int) -> Iterator[dict]:
    """Yields the mean absolute error of each method on one split."""
    studied = load_matrix(folder, matrix)
    design = StudyDesign((), (), known / len(studied.values), new=NEW)
    models, truth = method_study.split(studied, design, seed)
    means, fit_key = truth.mean(axis=1), jax.random.key(seed)
    guarded = choice.choose(models, len(truth), BUDGET, seed).method
    used = {DEFAULT: guarded, UNGUARDED: guarded.removeprefix("guarded_")}
    done: dict[str, dict] = {}
    for method in METHODS:
        name = used.get(method, method)
        if method == PROEVAL:
            found = run_proeval(models, truth, BUDGET, seed)
            error = np.abs([each.estimates[BUDGET - 1] for each in found] - means)
            done[name] = {"error": error.mean(), "covered": None}
        elif name not in done:
            evaluator = methods.get(name).fit(models, None, fit_key)
            key = jax.random.fold_in(fit_key, BUDGET)
            found = evaluator.evaluate(MatrixOracle(truth), len(truth), BUDGET, key)
            inside = (found.low - 1e-9 <= means) & (means <= found.high + 1e-9)
            done[name] = {
                "error": float(np.abs(found.accuracy - means).mean()),
                "covered": None if np.isnan(found.low).any() else float(inside.mean()),
            }
        yield {"method": method, "used": name, "models": len(truth)} | done[name]


def parse_splits(text: str) -> range:
    """Returns the splits FIRST:END."""
    return range(*map(int, text.split(":")))


def run(out: Path, matrices: Path = SHARED, splits: str = "0:6") -> None:
    """Adds the cells that the record lacks."""
    cells = (
        {"matrix": name, "known": count, "seed": seed}
        for seed, count, name in itertools.product(parse_splits(splits), KNOWN, MATRICES)
    )
    engine.measure_missing(record_of(out), cells, functools.partial(measure, matrices))


def record_of(out: Path) -> StudyRecord:
    """Opens the record in a folder."""
    return StudyRecord(out / "study.jsonl", {"budget": BUDGET, "new": NEW})


def table(out: Path, splits: str = "0:6") -> None:
    """Prints the errors, and the default's over the better of `BESIDE`."""
    frame = pd.DataFrame(record_of(out).rows())
    chosen_splits = parse_splits(splits)
    frame = frame[frame["seed"].isin(chosen_splits)]
    print(f"{describe()}; splits {chosen_splits.start} to {chosen_splits.stop - 1}, K = {BUDGET}\n")
    rows = []
    for (count, name), part in frame.groupby(["known", "matrix"]):
        errors = part.pivot_table(index="seed", columns="method", values="error")
        shown = (f"{errors[each].mean():.4f} ± {errors[each].sem():.4f}" for each in METHODS)
        used = part[part["method"] == UNGUARDED]["used"].value_counts()
        chosen = ", ".join(f"{method} {times}" for method, times in used.items())
        rows.append([count, name, len(errors), *shown, f"{compute_ratio([errors]):.2f}", chosen])
    heads = ["known: | matrix | splits", *METHODS, "default ÷ better"]
    engine.print_table(f"{': | '.join(heads)}: | chosen", rows)
    random = np.random.default_rng(0)
    for count, part in frame.groupby("known"):
        by_matrix = [
            each.pivot_table(index="seed", columns="method", values="error")
            for _, each in part.groupby("matrix")
        ]
        draws = [
            compute_ratio(
                [each.sample(frac=1, replace=True, random_state=random) for each in by_matrix]
            )
            for _ in range(DRAWS)
        ]
        low, high = np.quantile(draws, [0.025, 0.975])
        inside = part[part["method"] == DEFAULT]
        covered = np.average(inside["covered"].astype(float), weights=inside["models"])
        print(
            f"\n{count} known: {compute_ratio(by_matrix):.2f} ({low:.2f}–{high:.2f}, bootstrap of"
            f" splits) in the geometric mean over matrices, {BAR} at most; the default's intervals"
            f" covered {covered:.3f} of {inside['models'].sum()}"
        )


def compute_ratio(errors: Sequence[pd.DataFrame]) -> float:
    """Returns the default's mean error over that of the better of `BESIDE`, geometric mean over
    matrices, whose errors have a row for each split.
    """
    means = [each.mean() for each in errors]
    logs = [np.log(mean[DEFAULT] / mean[list(BESIDE)].min()) for mean in means]
    return float(np.exp(np.mean(logs)))


if __name__ == "__main__":
    engine.start(run, table)
