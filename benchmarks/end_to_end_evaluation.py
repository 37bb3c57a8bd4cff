"""From learners to a cache to new models at 5% of the samples: MAE, error of the accuracy, coverage, rank, FLOPs saved.

  for run in indep:0 indep:1 ft_prev:0 ft_prev:1 ft_dynamic:0; do python -m launch.run \\
      --config=experiments/configs/${run%:*}.py --config.seed=${run#*:} --config.stream=five.csv --config.keep=all \\
      --config.search.trials=15 --run_dir=runs/five/${run/:/-}; done
  python -m benchmarks.end_to_end_evaluation --stream=five.csv --cache=caches \\
      --new=runs/five/ft_dynamic-0 runs/five/{indep,ft_prev}-?
  python -m launch.evaluate metrics --cache=caches/recommended
  python -m launch.report runs/five/* caches/recommended/* --out=report

Known runs fill the caches; each predictor of the new run is asked 5% of the samples of its data set, by running its checkpoint;
then the new run is imported whole, which shows how good the estimates were. Goes on where it stopped.
"""

import argparse
import shutil
import time
from pathlib import Path

import pandas as pd

from benchmarks.machine import describe
from experiments.filling import fill
from experiments.oracles import CheckpointOracle
from experiments.predictors import KeptRun, provenance
from nevis_stream.dynamic_evaluation.adding import add_models, read_additions
from nevis_stream.dynamic_evaluation.cache import EvaluationCache
from nevis_stream.dynamic_evaluation.summary import audit

METHODS = ("recommended", "sort_and_search", "stratified_mean")


def main() -> None:
    """Fills, adds, imports the truth and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("known", type=Path, nargs="+")
    parser.add_argument("--new", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--stream", default=None)
    parser.add_argument("--share", type=float, default=0.05)
    options = parser.parse_args()
    new = KeptRun(options.new, options.stream)
    for path in options.known:
        fill(KeptRun(path, options.stream), options.cache / "known")
    fill(new, options.cache / "truth")
    rows = []
    for method in METHODS:  # a copy for each method: an addition's observed cells would help the next one
        rows += of_method(method, new, options)
    frame = pd.DataFrame(rows)
    print(f"{describe()}; {len(options.known)} known runs; {options.share:.0%} of the samples of each data set asked\n")
    print("| data set | method | known | new | n | asked | MAE | accuracy error | 95% covers | FLOPs spent | saved |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    for (dataset, method), of in frame.groupby(["dataset", "method"], sort=False):
        print(
            f"| {dataset} | `{method}` | {of.models.iloc[0]} | {len(of)} | {of.samples.iloc[0]} | {of.asked.iloc[0]} | "
            f"{of.mae.mean():.4f} | {of.accuracy_error.mean():.4f} | {_covered(of)} | "
            f"{of.flops_spent.sum():.3g} | {of.flops_saved.sum():.3g} |"
        )


def of_method(method: str, new: KeptRun, options: argparse.Namespace) -> list[dict]:
    """Returns a row for each predictor of the new run."""
    folder = options.cache / method
    predictors = new.predictors
    rows = []
    for dataset in dict.fromkeys(predictor.task.dataset_id for predictor in predictors):
        if not (folder / dataset).exists():
            shutil.copytree(options.cache / "known" / dataset, folder / dataset)
        cache = EvaluationCache(folder / dataset)
        mine = {p.predictor_id: p for p in predictors if p.task.dataset_id == dataset}
        if not read_additions(cache.directory):
            begun = time.process_time()
            checkpoints = {model: (predictor.checkpoint, predictor.trial) for model, predictor in mine.items()}
            facts = [provenance(new, predictor) for predictor in mine.values()]
            budget = max(1, round(options.share * cache.shape[1]))
            oracle = CheckpointOracle(checkpoints, options.stream)
            add_models(cache, list(mine), oracle, budget, method, provenances=facts)
            print(f"{dataset}, {method}: {len(mine)} models in {time.process_time() - begun:.0f} CPU s", flush=True)
        cache.merge(EvaluationCache(options.cache / "truth" / dataset))
        for addition in read_additions(cache.directory):
            truth = float((cache.matrix([addition.name]) == 1).mean())
            inside = None if addition.low is None else addition.low <= truth <= addition.high
            rows.append(vars(addition) | audit(cache, addition) | {"dataset": dataset, "inside": inside})
    return rows


def _covered(of: pd.DataFrame) -> str:
    return f"{of.inside.mean():.2f}" if of.inside.notna().all() else "no interval"


if __name__ == "__main__":
    main()
