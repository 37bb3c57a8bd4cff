"""What is paid and kept when a model of a multi-label task is asked about a few images.

  python -m benchmarks.multi_label --out=runs/multi_label [--budget=40] [--runs=3]

Trains `indep` at the budget tiny with six trials on voc2007 (from NEVIS_STREAM_SHARED), once for each
seed. The predictors of all runs but the last are known; those of the last are added to copies of
their cache, by asking the same number of images once with all labels kept and once, as before, with
one label an image (a cache that does not say that its columns are labels of images).
"""  # noqa: E501

import csv
import shutil
import sys
import warnings
from pathlib import Path

import numpy as np

from nevis_stream.dynamic_evaluation.adding import add_models
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.experiments.commands import call, make_parser, positive
from nevis_stream.experiments.machine import describe
from nevis_stream.experiments.recorded import open_run
from nevis_stream.launch import entry
from nevis_stream.streams.named_streams import stream_rows
from nevis_stream.trained_runs.caches import CheckpointOracle, fill
from nevis_stream.trained_runs.predictors import KeptRun, provenance

DATA = "voc2007"
METHODS = ("sort_and_search", "copy_nearest", "stratified_mean", "recommended")
HEADS = "kept | method | images paid | answers computed | kept | accuracy error | MAE | width"


class Counting(CheckpointOracle):
    """Counts the images that a model ran on."""

    images = 0

    def __call__(self, cells):
        """As any `Oracle`."""
        names = {sample.rpartition("#")[0] for sample in self._ids(cells.samples[0])}
        self.images += len(names)
        return super().__call__(cells)


def train(out: Path, seed: int) -> KeptRun:
    """Returns a run on the data set, which is made unless it is there."""
    stream = out / "stream.csv"
    row = next(row for row in stream_rows("local25")[1] if row["dataset_id"] == DATA)
    with open(stream, "w", newline="") as file:
        writer = csv.DictWriter(file, row)
        writer.writeheader()
        writer.writerow(row | {"meta_split": "test", "order": 0})
    words = ["--config=indep", f"--config.stream={stream}", "--config.search.trials=6"]
    words += ["--config.keep=all", f"--config.seed={seed}", f"--run_dir={out / f'run-{seed}'}"]
    call([sys.executable, "-m", "launch.run", *words])
    return open_run(out / f"run-{seed}", str(stream))


def add(known: Path, copy: Path, new: KeptRun, method: str, budget: int, whole: bool) -> list:
    """Returns a row for each model of a run that is added to a copy of a cache."""
    rows = []
    for predictor in new.predictors:
        shutil.rmtree(copy, ignore_errors=True)
        first = EvaluationCache(known)
        about = first.about if whole else {**first.about, "kind": "single_label"}
        cache = EvaluationCache(copy, create=True, about=about)
        facts = first.models()
        for name, values in zip(facts, first.matrix(), strict=True):
            cache.append(name, first.samples(), values, provenance=facts[name])
        oracle, name = Counting(new, predictor, cache.samples), predictor.predictor_id
        answers = new.answer(predictor, new.samples(predictor.task, ["dev", "test"]))
        place = {cell: i for i, cell in enumerate(answers.ids)}
        truth = answers.correct[[place[cell] for cell in cache.samples()]]
        facts = {name: provenance(new, predictor)}
        account = add_models(cache, {name: oracle}, budget, method, provenances=facts)[0]
        predicted = cache.matrix([name], predicted=True)[0]
        rows.append(
            (
                oracle.images,
                oracle.images * predictor.task.num_classes,
                account.asked,
                abs(account.accuracy - truth.mean()),
                (predicted != truth).mean(),
                account.high - account.low if account.high is not None else np.nan,
            )
        )
    return rows


def main() -> None:
    """Prints the table; see the module."""
    parser = make_parser(__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--budget", type=positive, default=40)
    parser.add_argument("--runs", type=positive, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    options.out.mkdir(parents=True, exist_ok=True)
    runs = [train(options.out, seed) for seed in range(options.runs)]
    for run in runs[:-1]:
        fill(run, options.out / "caches", splits=["dev", "test"])
    known = options.out / "caches" / DATA
    models, columns = EvaluationCache(known).shape
    print(
        f"{describe()}\n{DATA}: {models} known models of {len(runs) - 1} runs,"
        f" {len(runs[-1].predictors)} new of another; {columns} columns; a budget of"
        f" {options.budget}; means over the new models, ± 1 standard deviation.\n"
    )
    print(f"| {HEADS} |\n|---|---|{'---:|' * 6}")
    for method in METHODS:
        for whole in (False, True):
            rows = np.array(
                add(known, options.out / "copy", runs[-1], method, options.budget, whole)
            )
            mean, std = rows.mean(axis=0), rows.std(axis=0, ddof=1)
            counts = " | ".join(f"{value:.1f}" for value in mean[:3])
            errors = " | ".join(
                f"{m:.4f} ± {s:.4f}" for m, s in zip(mean[3:], std[3:], strict=True)
            )
            label = "all labels" if whole else "one label"
            print(f"| {label} | `{method}` | {counts} | {errors} |", flush=True)


if __name__ == "__main__":
    entry.guard(main)
