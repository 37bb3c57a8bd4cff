"""Compares the errors of the default with those of ProEval on the same splits.

    python -m experiments.evaluation_studies.beside_proeval run --out=FOLDER [--methods=proeval,default]
    python -m experiments.evaluation_studies.beside_proeval table --out=FOLDER

60% of the models (of `metabench_gsm8k` 35 models), or of the groups, are known. ProEval (Huang and
others 2026, the package `proeval`, not among our requirements) is used as its guide says: a plan
from the known models' scores with its default settings, and an estimate from the planned answers.
Values that the source lacks are the mean of the sample's others there. `run` adds the splits that
FOLDER/study.jsonl lacks, one of all matrices after the other, and may be stopped at any time.
"""  # noqa: E501

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd

from nevis_stream.catalogue import find_shared_directory
from nevis_stream.experiments.evaluation_studies import method_study
from nevis_stream.experiments.evaluation_studies.any_model import show_ratio
from nevis_stream.experiments.evaluation_studies.method_study import StudiedMatrix, StudyDesign
from nevis_stream.experiments.scripts import describe, make_parser, parse_positive
from nevis_stream.experiments.study_record import StudyRecord
from nevis_stream.queries.matrix import Matrix
from nevis_stream.queries.samples import UNKNOWN
from nevis_stream.storage.reading import read_npz

BUDGETS = (5, 10, 20, 50, 100, 200)
JUDGED = BUDGETS[2:]  # by our bar: .85 in the mean over budgets, .95 at each
NEW = 10  # new models of a split, at most
# fraction that is known; None: 35 models
MATRICES = {
    "zeroeval_crux": 0.6,
    "alpaca_eval2": 0.6,
    "cifar10.1_v6": 0.6,
    "metabench_gsm8k": None,
    "nlu_boolq": 0.6,
}
FEW = 35
PROEVAL, DEFAULT = "proeval", "default"


def load_matrix(folder: Path, name: str) -> StudiedMatrix:
    """Returns outcomes; those that the source lacks are unknown."""
    data = read_npz(folder / f"{name}.npz")
    values = data["correct"].astype(np.uint8)
    if "imputed" in data:
        values[data["imputed"] > 0] = UNKNOWN
    return StudiedMatrix(name, values, data.get("group"))


def make_design(
    matrix: StudiedMatrix, seed: int, budgets: tuple[int, ...] = BUDGETS
) -> StudyDesign:
    """Returns a design whose last split is that of the seed."""
    known = MATRICES[matrix.name] or FEW / len(matrix.values)
    return StudyDesign((DEFAULT,), budgets, known, seed + 1, NEW)


def run_proeval(known: Matrix, truth: np.ndarray, most: int, seed: int) -> list[Any]:
    """Returns ProEval's estimates of each new model, [m, n], after 1 to `most` answers."""
    from proeval import BQPriorSampler  # type: ignore[import-not-found,unused-ignore]

    scores = known.matrix().astype(np.float64)
    mask = scores <= 1
    means = np.where(mask, scores, 0).sum(axis=0) / np.maximum(mask.sum(axis=0), 1)
    plan = BQPriorSampler().plan(np.where(mask, scores, means).T, budget=most, seed=seed)
    asked = list(plan.indices)
    # each answer is planned before any is seen, so the first K are those of a plan for K
    return [plan.estimate(row[asked].astype(np.float64)) for row in truth]


def measure_proeval(matrix: StudiedMatrix, seed: int) -> Iterator[dict]:
    """Yields the mean absolute error at each budget."""
    known, truth = method_study.split(matrix, make_design(matrix, seed), seed)
    found = run_proeval(known, truth, max(BUDGETS), seed)
    for budget in BUDGETS:
        for method, values in (
            (PROEVAL, [each.estimates[budget - 1] for each in found]),
            (f"{PROEVAL}, rounded", [each.rounded_estimates[budget - 1] for each in found]),
        ):
            error = np.abs(np.array(values) - truth.mean(axis=1)).mean()
            yield {"method": method, "budget": budget, "error": error, "models": len(truth)}


def measure_default(matrix: StudiedMatrix, seed: int) -> Iterator[dict]:
    """Yields the mean absolute error at each budget, and the coverage."""
    known, truth = method_study.split(matrix, make_design(matrix, seed), seed)
    done = [(DEFAULT, budget, each) for budget in BUDGETS for each in range(seed)]
    (batch,) = method_study.run_batches(matrix, make_design(matrix, seed), lambda *row: row in done)
    for row in batch:
        yield {
            **{"method": DEFAULT, "budget": row["budget"], "error": row["accuracy_error"]},
            **{"covered": row["coverage95"], "models": len(truth), "known": known.shape[0]},
        }


WAYS = {PROEVAL: measure_proeval, DEFAULT: measure_default}


def run(folder: Path, out: Path, methods: list[str], splits: int) -> None:
    """Adds the cells that the record lacks."""
    record = record_of(out)
    for seed in range(splits):
        for name in MATRICES:
            for way in methods:
                cell = {"matrix": name, "seed": seed, "way": way}
                if cell not in record:
                    jax.clear_caches()
                    record.add(cell, list(WAYS[way](load_matrix(folder, name), seed)))
                    print(f"split {seed}: {name}, {way}", flush=True)


def record_of(out: Path) -> StudyRecord:
    """Opens the record in a folder."""
    return StudyRecord(out / "study.jsonl", {"budgets": BUDGETS, "new": NEW})


def print_table(out: Path) -> None:
    """Prints errors, and ours over ProEval's on the splits that both have."""
    frame = pd.DataFrame(record_of(out).rows())
    print(f"{describe()}\n")
    errors = frame.pivot_table(
        index=["matrix", "seed"], columns=["method", "budget"], values="error"
    )
    print("| matrix | splits | method | " + " | ".join(f"K = {each}" for each in BUDGETS) + " |")
    print("|---|---:|---|" + "---:|" * len(BUDGETS))
    for method in errors.columns.unique("method"):
        for name, part in errors[method].dropna().groupby("matrix"):
            shown = (f"{part[each].mean():.4f} ± {part[each].sem():.4f}" for each in BUDGETS)
            print(f"| {name} | {len(part)} | {method} | " + " | ".join(shown) + " |")
    if DEFAULT not in errors.columns.unique("method"):
        return
    cells = {
        budget: [
            part[[(DEFAULT, budget), (PROEVAL, budget)]].dropna().to_numpy()
            for _, part in errors.groupby("matrix")
        ]
        for budget in BUDGETS
    }
    shown = ", ".join(f"{budget}: {show_ratio(each)}" for budget, each in cells.items())
    print(f"\nOurs ÷ ProEval's, geometric mean over matrices, by K: {shown}")
    judged = show_ratio([each for budget in JUDGED for each in cells[budget]])
    print(f"over K = {', '.join(map(str, JUDGED))} as well: {judged} (bar: .85, and .95 at each)")


def main() -> None:
    """Runs one of the two commands."""
    parser = make_parser(__doc__)
    parser.add_argument("command", choices=("run", "table"))
    parser.add_argument("--matrices", type=Path, default=find_shared_directory() / "matrices")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--methods", default=",".join(WAYS))
    parser.add_argument("--splits", type=parse_positive, default=10)
    options = parser.parse_args()
    if options.command == "table":
        print_table(options.out)
        return
    methods = options.methods.split(",")
    try:
        import proeval  # type: ignore[import-not-found,unused-ignore] # noqa: F401
    except ImportError:
        if PROEVAL in methods:
            print("proeval is not installed, so its errors are left out: pip install proeval")
            methods.remove(PROEVAL)
    run(options.matrices, options.out, methods, options.splits)


if __name__ == "__main__":
    from nevis_stream.launch import entry

    entry.use_compilation_cache()
    entry.guard(main)
