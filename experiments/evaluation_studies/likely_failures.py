"""The samples that new models most likely fail, by 50 answers of each: how many they truly fail.

    python -m experiments.evaluation_studies.likely_failures [--splits=1]

Of each new model the 20 samples without an answer with the highest predicted probability of a
failure, by `adaptive_testing`; beside the fraction of failures among all samples without an answer.
"""

import dataclasses
from pathlib import Path

import jax
import numpy as np

from nevis_stream.catalogue import find_shared_directory
from nevis_stream.dynamic_evaluation import methods
from nevis_stream.dynamic_evaluation.session_view import rank_failures
from nevis_stream.experiments.evaluation_studies.any_model import load_matrix, make_design
from nevis_stream.experiments.evaluation_studies.method_study import split
from nevis_stream.experiments.scripts import describe, make_parser, parse_positive
from nevis_stream.queries.oracle import MatrixOracle

MATRICES = ("zeroeval_crux", "cifar10.1_v6", "alpaca_eval2", "metabench_gsm8k, 400 known")
BUDGET, SHOWN = 50, 20


def main() -> None:
    """Prints a row for each matrix."""
    parser = make_parser(__doc__)
    parser.add_argument("--matrices", type=Path, default=find_shared_directory() / "matrices")
    parser.add_argument("--splits", type=parse_positive, default=1)
    options = parser.parse_args()
    method = dataclasses.replace(methods.get("adaptive_testing"), cross_validated=False)
    print(f"{describe()}; K = {BUDGET}, {SHOWN} samples of each model\n")
    print("| matrix | new models | predicted | failed | of all left |\n|---|---:|---:|---:|---:|")
    for name in MATRICES:
        rows = []
        for seed in range(1, options.splits + 1):
            matrix = load_matrix(options.matrices, name)
            known, truth = split(matrix, make_design(matrix, "like"), seed)
            key = jax.random.key(seed)
            evaluator = method.fit(known, None, key)
            estimates = evaluator.evaluate(MatrixOracle(truth), len(truth), BUDGET, key)
            for model, observed in enumerate(estimates.observed):
                columns = list(range(len(observed)))
                table = rank_failures(columns, estimates.values[model], observed)[:SHOWN]
                failed = 1 - truth[model, table["sample"].to_numpy()].mean()
                rows.append(
                    (table["probability"].mean(), failed, 1 - truth[model, ~observed].mean())
                )
        predicted, failed, of_all = np.mean(rows, axis=0)
        print(
            f"| {name} | {len(rows)} | {predicted:.3f} | {failed:.3f} | {of_all:.3f} |", flush=True
        )


if __name__ == "__main__":
    from nevis_stream.launch import entry

    entry.use_compilation_cache()
    entry.guard(main)
