"""Measures the cost of asking a checkpoint: all samples, few in batches of 64, few in batches of a power of two.

  python -m benchmarks.asking_few --new=runs/five/ft_dynamic-0 --known=caches --stream=five.csv --out=runs/asking_few

Caches of the known runs are made with `launch.evaluate import`; copies are made below --out, and deleted at the end. The chosen
predictor of each of the run's tasks is added to a copy by each method.
"""  # noqa: E501

import shutil
import time
from pathlib import Path

from nevis_stream.dynamic_evaluation.adding import add_models
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.experiments.commands import make_parser, positive
from nevis_stream.experiments.machine import describe
from nevis_stream.experiments.recorded import open_run
from nevis_stream.launch import entry
from nevis_stream.trained_runs.caches import CheckpointOracle
from nevis_stream.trained_runs.predictors import KeptRun, provenance

METHODS = ("sort_and_search", "recommended")
FULL = 64


class Recording(CheckpointOracle):
    """Records the number of samples asked at a time, and the CPU seconds of their answers."""

    def __init__(self, *args):
        super().__init__(*args)
        self.sizes, self.seconds = [], 0.0

    def __call__(self, cells):
        """As any `Oracle`."""
        start = time.process_time()
        answers = super().__call__(cells)
        self.seconds += time.process_time() - start
        self.sizes.append(cells.samples.size)
        return answers


def main() -> None:
    """Adds the models and prints the tables."""
    parser = make_parser(__doc__)
    parser.add_argument("--new", type=Path, required=True)
    parser.add_argument("--known", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--stream", default=None)
    parser.add_argument("--budget", type=positive, default=64)
    options = parser.parse_args()
    run = open_run(options.new, options.stream)
    chosen = [predictor for predictor in run.predictors if predictor.chosen]
    print(f"{describe()}; budget {options.budget}, one new model a data set\n")
    print(
        "| data set | n | method | asked at a time | FLOPs of all n | in batches of 64 | now | CPU s (compiling included) |"  # noqa: E501
    )
    print("|---|---:|---|---|---:|---:|---:|---:|", flush=True)
    for predictor in chosen:
        parts = run.samples(predictor.task, ["dev"])
        full = run.answer(predictor, [parts[0].take(range(min(FULL, len(parts[0]))))]).flops
        for method in METHODS:
            copy = options.out / predictor.task.dataset_id
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(options.known / predictor.task.dataset_id, copy)
            cache = EvaluationCache(copy)
            model, n = predictor.predictor_id, cache.shape[1]
            oracle = Recording(run, predictor, cache.samples)
            facts = {model: provenance(run, predictor)}
            account = add_models(cache, {model: oracle}, options.budget, method, provenances=facts)[
                0
            ]
            before = full * sum(-(-size // FULL) for size in oracle.sizes)
            sizes = f"{oracle.sizes[0]}" + (
                f", then {len(oracle.sizes) - 1} × {oracle.sizes[-1]}" if oracle.sizes[1:] else ""
            )
            print(
                f"| {copy.name} | {n} | `{method}` | {sizes} | {account.flops_spent + account.flops_saved:.3g} | {before:.3g} | "  # noqa: E501
                f"{account.flops_spent:.3g} | {oracle.seconds:.1f} |",
                flush=True,
            )
            shutil.rmtree(copy)
    print()
    for predictor in chosen:
        differing(run, predictor)


def differing(run: KeptRun, predictor) -> None:
    """Prints the differences between answers in batches of 4 and in batches of 64."""
    (dev,) = run.samples(predictor.task, ["dev"])
    samples = dev.take(range(min(256, len(dev))))
    whole, wrong, largest = run.answer(predictor, [samples]), 0, 0.0
    for low in range(0, len(samples), 4):
        few = samples.take(range(low, min(low + 4, len(samples))))
        part = run.answer(predictor, [few], small_batches=True)
        rows = slice(low, low + len(part.correct))
        wrong += int((part.correct != whole.correct[rows]).sum())
        largest = max(largest, float(abs(part.probabilities - whole.probabilities[rows]).max()))
    print(
        f"{predictor.task.dataset_id}: {wrong} of {len(samples)} outcomes differ in batches of 4;"
        f" probabilities differ by at most {largest:.0e}."
    )


if __name__ == "__main__":
    entry.guard(main)
