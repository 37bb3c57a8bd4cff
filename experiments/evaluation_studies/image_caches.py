"""Caches of our own runs: do features of images help to choose samples and to predict, and how
well are probabilities of the true class estimated?

  python -m experiments.learner_studies.hub --out=runs/hub                                # the models
  python -m experiments.evaluation_studies.image_caches --runs=runs/hub --out=runs/image_caches
  python -m experiments.evaluation_studies.image_caches --out=runs/image_caches --print_only

Every chosen predictor of the runs is a model; each data set's test split is crossed as in
`crossing`, without features of the images and with those of two backbones: that of FT-d
for the data set itself ("near"), and that of the same run after its first task, landsat ("far").
Values are outcomes; a second table has estimates of scores: of the mean probability of the true
class in these caches, and of alpaca_eval2, whose imputed cells are unknown.
"""  # noqa: E501

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd

from nevis_stream.datasets.dataset import Samples
from nevis_stream.dynamic_evaluation import method_study
from nevis_stream.dynamic_evaluation.method_study import Matrix, StudyDesign
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.experiments.commands import make_parser, positive
from nevis_stream.experiments.evaluation_studies.acquisition import KNOWN, load
from nevis_stream.experiments.evaluation_studies.crossing import (
    POLICIES,
    PREDICTORS,
    fitting_pairs,
    interval,
    open_record,
    print_claims,
    print_errors,
    read_rows,
    run_cells,
)
from nevis_stream.experiments.machine import describe
from nevis_stream.experiments.recorded import open_checkpoint, open_run
from nevis_stream.run_directory.ledger import FILE_NAME, Ledger
from nevis_stream.storage.study_record import StudyRecord
from nevis_stream.trained_runs.caches import fill

DATASETS = ("emnist_balanced", "fashion_mnist", "cifar100")
TRAINED = "emnist_balanced"  # the data set of the neural process and the policy
BACKBONES = {"far": "0000-landsat", "near": "*-{}"}  # checkpoints of one run of FT-d
NONE = "none"
SPLITS, TRAINED_SPLITS = 10, 5
SCORE_METHODS = ("strata+mean", "linear_gaussian", "recommended", "quadrature")
SCORE_BUDGETS = (20, 100)
SHARED_SCORES = "alpaca_eval2"


def main() -> None:
    """Runs what is missing, and prints the tables."""
    parser = make_parser(__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of caches and results")
    parser.add_argument("--runs", type=Path, help="folder of the runs of learner_studies.hub")
    parser.add_argument("--datasets", default=",".join(DATASETS), help="separated by commas")
    parser.add_argument("--splits", type=positive, default=SPLITS, help="of the known models")
    parser.add_argument("--print_only", action="store_true", help="run nothing")
    options = parser.parse_args()
    names = options.datasets.split(",")
    if not options.print_only:
        if options.runs is None or not options.runs.is_dir():
            parser.error(
                "--runs: give the folder of the runs of learner_studies.hub; or --print_only"
            )
        fill_caches(options.runs, options.out / "caches")
        record = open_record(options.out)
        for seed in range(options.splits):
            for name in names:
                cross(name, options.runs, options.out, seed, record)
        for name in (*names, SHARED_SCORES):
            estimate_scores(name, options.out, options.splits)
    for name in names:
        print_crossing(name, options.out)
    print_scores([*names, SHARED_SCORES], options.out)
    print(describe())


def fill_caches(runs: Path, caches: Path) -> None:
    """Fills one cache for each data set with the test answers of all complete runs."""
    for file in sorted(runs.rglob(FILE_NAME)):
        if Ledger(file.parent).complete:
            fill(open_run(file.parent), caches, which="chosen", splits=["test"])


def matrix(name: str, runs: Path, out: Path, backbone: str) -> Matrix:
    """Returns the outcomes of a data set's cache, with the features of a backbone, or of `NONE`."""
    cache = EvaluationCache(out / "caches" / name)
    facts = cache.facts()
    if backbone != NONE:
        (path,) = sorted(
            (runs / "local25_hub" / "ft_dynamic" / "seed-0" / "checkpoints").glob(
                BACKBONES[backbone].format(name)
            )
        )
        kept_run, predictor = open_checkpoint(path)
        task = next(task for task in kept_run.stream.tasks if task.dataset_id == name)
        samples = Samples.join(kept_run.samples_of(task, cache.samples()))
        assert list(samples.ids) == list(cache.samples())  # a single split, in its order
        features, _ = kept_run.features(predictor, samples)
        facts = dataclasses.replace(facts, features=features)
    return Matrix(f"{name}-{backbone}", cache.matrix(), None, facts)


def cross(name: str, runs: Path, out: Path, seed: int, record: StudyRecord) -> None:
    """Computes what is missing of a split of a data set."""
    for backbone in (NONE, *BACKBONES):
        wanted = []
        if backbone == NONE:
            wanted += fitting_pairs(POLICIES, PREDICTORS)
        else:
            wanted += fitting_pairs(["clusters_features"], PREDICTORS)
        if name == TRAINED and seed < TRAINED_SPLITS:
            trained = ["random", "reinforcement"] if backbone == NONE else ["random"]
            wanted += fitting_pairs(trained, ["neural_process"])
        run_cells(matrix(name, runs, out, backbone), wanted, record, seed + 1, known=KNOWN)


def estimate_scores(name: str, out: Path, splits: int) -> None:
    """Estimates means of scores, with intervals."""
    if name == SHARED_SCORES:
        scores, _ = load(name)
    else:
        cache = EvaluationCache(out / "caches" / name)
        scores = Matrix(name, cache.confidence().astype(np.float32), None, cache.facts())
    design = StudyDesign(SCORE_METHODS, SCORE_BUDGETS, KNOWN, splits)
    record = method_study.open_record(out / f"{name}-scores.jsonl")
    for _ in method_study.run([scores], design, record):
        pass


def print_crossing(name: str, out: Path) -> None:
    """Prints the errors of a data set, and the claims, with those on features."""
    table = read_rows(open_record(out), [f"{name}-{each}" for each in (NONE, *BACKBONES)])
    features = table["matrix"].str.removeprefix(f"{name}-")
    table = table.assign(features=features, matrix=name)
    without = table[table["features"] == NONE]
    print_errors(name, without)
    chosen = table[table["policy"] == "clusters_features"]
    for backbone in BACKBONES:
        part = chosen[chosen["features"] == backbone]
        print_errors(f"{name}, features of the {backbone} backbone", part)
        print_claims(pd.concat([without[without["policy"] == "random"], part]))
    print_claims(without)
    processes = table[(table["predictor"] == "neural_process") & (table["policy"] == "random")]
    for what, part, first, second in (
        ("`clusters_features`", chosen, "near", "far"),
        ("`neural_process`", processes, "near", "far"),
        ("`neural_process`", processes, "near", NONE),
    ):
        if ratio := interval(part, "features", "predictor", first, second):
            print(f"{name}: errors of {what}, features {first} over {second}: {ratio}")


def print_scores(names: list[str], out: Path) -> None:
    """Prints how well scores are estimated."""
    print("\n| scores | method | K | splits | MAE of cells | error of the mean | covered |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for name in names:
        rows = method_study.read(method_study.open_record(out / f"{name}-scores.jsonl"))
        rows = pd.DataFrame(rows)
        for (method, budget), part in rows.groupby(["method", "budget"], sort=False):
            print(
                f"| {name} | `{method}` | {budget} | {len(part)} | {part['mae'].mean():.4f} |"
                f" {part['accuracy_error'].mean():.4f} ± {part['accuracy_error'].sem():.4f} |"
                f" {part['coverage95'].mean():.3f} |"
            )


if __name__ == "__main__":
    from nevis_stream.launch import entry

    entry.guard(main)
