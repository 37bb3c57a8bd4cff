"""Compares the errors of the default with those of ProEval on the same splits.

    python -m experiments.evaluation_studies.beside_proeval run --out=FOLDER [--methods=proeval,default]
    python -m experiments.evaluation_studies.beside_proeval table --out=FOLDER

60% of the models (of `metabench_gsm8k` 35 models), or of the groups, are known. ProEval (Huang and
others 2026, the package `proeval`, not among our requirements) is used as its guide says: a plan
from the known models' scores with its default settings, and an estimate from the planned answers.
Values that the source lacks are the mean of the sample's others there. `run` adds the splits that
FOLDER/study.jsonl lacks, one of all matrices after the other, and may be stopped at any time.
"""  # noqa: E501

import functools
import itertools
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nevis_stream.experiments import engine
from nevis_stream.experiments.evaluation_studies import SHARED, method_study
from nevis_stream.experiments.evaluation_studies.any_model import load_matrix, show_ratio
from nevis_stream.experiments.evaluation_studies.method_study import StudiedMatrix, StudyDesign
from nevis_stream.experiments.scripts import describe
from nevis_stream.experiments.study_record import StudyRecord
from nevis_stream.queries.matrix import Matrix

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


def measure(folder: Path, matrix: str, seed: int, way: str) -> Iterator[dict]:
    """Yields the rows of a cell."""
    return WAYS[way](load_matrix(folder, matrix), seed)


def run(
    out: Path, matrices: Path = SHARED, methods: Sequence[str] = tuple(WAYS), splits: int = 10
) -> None:
    """Adds the cells that the record lacks."""
    if PROEVAL in methods and not find_spec(PROEVAL):
        print("proeval is not installed, so its errors are left out: pip install proeval")
        methods = [name for name in methods if name != PROEVAL]
    cells = (
        {"matrix": name, "seed": seed, "way": way}
        for seed, name, way in itertools.product(range(splits), MATRICES, methods)
    )
    engine.measure_missing(record_of(out), cells, functools.partial(measure, matrices))


def record_of(out: Path) -> StudyRecord:
    """Opens the record in a folder."""
    return StudyRecord(out / "study.jsonl", {"budgets": BUDGETS, "new": NEW})


def table(out: Path) -> None:
    """Prints errors, and ours over ProEval's on the splits that both have."""
    frame = pd.DataFrame(record_of(out).rows())
    print(f"{describe()}\n")
    errors = frame.pivot_table(
        index=["matrix", "seed"], columns=["method", "budget"], values="error"
    )
    rows = (
        [name, len(part), method]
        + [f"{part[each].mean():.4f} ± {part[each].sem():.4f}" for each in BUDGETS]
        for method in errors.columns.unique("method")
        for name, part in errors[method].dropna().groupby("matrix")
    )
    budgets = [f"K = {each}:" for each in BUDGETS]
    engine.print_table(" | ".join(["matrix | splits: | method", *budgets]), rows)
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


if __name__ == "__main__":
    engine.start(run, table)
