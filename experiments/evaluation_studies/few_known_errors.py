"""Compares the errors of the default with those of single methods where few models are known.

    python -m experiments.evaluation_studies.few_known_errors run --out=FOLDER [--splits=0:6]
    python -m experiments.evaluation_studies.few_known_errors table --out=FOLDER

9 or 18 models of a matrix are known, drawn at random; new ones answer 50 samples. `default` is what
`add-model` chooses, `unguarded` the same method as it is. `run` adds what FOLDER/study.jsonl lacks,
one split of all matrices after the other; ProEval is used as in `beside_proeval`.
"""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import jax
import numpy as np
import pandas as pd

from nevis_stream.datasets.prepared import find_shared_directory
from nevis_stream.dynamic_evaluation import choice, methods
from nevis_stream.dynamic_evaluation.fits import Fits
from nevis_stream.experiments.evaluation_studies import method_study
from nevis_stream.experiments.evaluation_studies.beside_proeval import (
    DEFAULT,
    PROEVAL,
    run_proeval,
)
from nevis_stream.experiments.evaluation_studies.beside_proeval import load_matrix as read_matrix
from nevis_stream.experiments.evaluation_studies.method_study import StudyDesign
from nevis_stream.experiments.scripts import describe, make_parser
from nevis_stream.experiments.study_record import StudyRecord
from nevis_stream.queries.oracle import MatrixOracle

MATRICES = ("zeroeval_crux", "cifar10.1_v6", "alpaca_eval2", "metabench_gsm8k", "mmlu_pro")
KNOWN, BUDGET, NEW = (9, 18), 50, 10
UNGUARDED, BESIDE = "unguarded", ("recommended", PROEVAL)
METHODS = (DEFAULT, UNGUARDED, "recommended", "adaptive_testing", PROEVAL)
BAR, DRAWS = 1.05, 1000


def measure_split(folder: Path, name: str, count: int, seed: int) -> Iterator[dict]:
    """Yields the mean absolute error of each method on one split."""
    matrix = read_matrix(folder, name)
    known_fraction = count / len(matrix.values)
    design = StudyDesign((), (), known_fraction, new=NEW)
    known, truth = method_study.split(matrix, design, seed)
    means, fit_key = truth.mean(axis=1), jax.random.key(seed)
    guarded = choice.choose(Fits(memory={}), known, len(truth), BUDGET, seed).method
    used = {DEFAULT: guarded, UNGUARDED: guarded.removeprefix(methods.GUARDED)}
    done: dict[str, dict] = {}
    for method in METHODS:
        name = used.get(method, method)
        if method == PROEVAL:
            found = run_proeval(known, truth, BUDGET, seed)
            error = np.abs([each.estimates[BUDGET - 1] for each in found] - means)
            done[name] = {"error": error.mean(), "covered": None}
        elif name not in done:
            evaluator = methods.get(name).fit(known, None, fit_key)
            key = jax.random.fold_in(fit_key, BUDGET)
            found = evaluator.evaluate(MatrixOracle(truth), len(truth), BUDGET, key)
            inside = (found.low - 1e-9 <= means) & (means <= found.high + 1e-9)
            done[name] = {
                "error": float(np.abs(found.accuracy - means).mean()),
                "covered": None if np.isnan(found.low).any() else float(inside.mean()),
            }
        yield {"method": method, "used": name, "models": len(truth)} | done[name]


def run(folder: Path, out: Path, splits: range) -> None:
    """Adds the cells that the record lacks."""
    record = record_of(out)
    for seed, count, name in itertools.product(splits, KNOWN, MATRICES):
        cell = {"matrix": name, "known": count, "seed": seed}
        if cell not in record:
            jax.clear_caches()
            record.add(cell, list(measure_split(folder, name, count, seed)))
            print(f"split {seed}: {name}, {count} known", flush=True)


def record_of(out: Path) -> StudyRecord:
    """Opens the record in a folder."""
    return StudyRecord(out / "study.jsonl", {"budget": BUDGET, "new": NEW})


def print_table(out: Path, splits: range) -> None:
    """Prints the errors, and the default's over the better of `BESIDE`."""
    frame = pd.DataFrame(record_of(out).rows())
    frame = frame[frame["seed"].isin(splits)]
    print(f"{describe()}; splits {splits.start} to {splits.stop - 1}, K = {BUDGET}\n")
    print("| known | matrix | splits | " + " | ".join(METHODS) + " | default ÷ better | chosen |")
    print("|---:|---|---:|" + "---:|" * (len(METHODS) + 1) + "---|")
    for (count, name), part in frame.groupby(["known", "matrix"]):
        errors = part.pivot_table(index="seed", columns="method", values="error")
        shown = (f"{errors[each].mean():.4f} ± {errors[each].sem():.4f}" for each in METHODS)
        used = part[part["method"] == UNGUARDED]["used"].value_counts()
        chosen = ", ".join(f"{method} {times}" for method, times in used.items())
        print(
            f"| {count} | {name} | {len(errors)} | {' | '.join(shown)}"
            f" | {compute_ratio([errors]):.2f} | {chosen} |"
        )
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


def main() -> None:
    """Runs one of the two commands."""
    parser = make_parser(__doc__)
    parser.add_argument("command", choices=("run", "table"))
    parser.add_argument("--matrices", type=Path, default=find_shared_directory() / "matrices")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--splits", default="0:6")
    options = parser.parse_args()
    splits = range(*map(int, options.splits.split(":")))
    if options.command == "table":
        print_table(options.out, splits)
    else:
        run(options.matrices, options.out, splits)


if __name__ == "__main__":
    from nevis_stream.launch import entry

    entry.use_compilation_cache()
    entry.guard(main)
