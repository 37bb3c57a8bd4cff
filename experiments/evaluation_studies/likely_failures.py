"""The samples that new models most likely fail, by 50 answers of each: how many they truly fail.

    python -m experiments.evaluation_studies.likely_failures [--splits=1]

Of each new model the 20 samples without an answer with the highest predicted probability of a
failure, by `adaptive_testing`; beside the fraction of failures among all samples without an answer.
"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np

from nevis_stream.dynamic_evaluation import methods
from nevis_stream.dynamic_evaluation.session_view import rank_failures
from nevis_stream.experiments import engine
from nevis_stream.experiments.evaluation_studies import SHARED
from nevis_stream.experiments.evaluation_studies.any_model import load_matrix, make_design
from nevis_stream.experiments.evaluation_studies.method_study import split
from nevis_stream.experiments.scripts import describe
from nevis_stream.queries.oracle import MatrixOracle

MATRICES = ("zeroeval_crux", "cifar10.1_v6", "alpaca_eval2", "metabench_gsm8k, 400 known")
BUDGET, SHOWN = 50, 20


def measure(folder: Path, splits: int) -> Iterator[list[object]]:
    """Yields a row for each matrix."""
    method = dataclasses.replace(methods.get("adaptive_testing"), cross_validated=False)
    for name in MATRICES:
        rows = []
        for seed in range(1, splits + 1):
            matrix = load_matrix(folder, name)
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
        yield [name, len(rows), *(f"{mean:.3f}" for mean in np.mean(rows, axis=0))]


def main(matrices: Path = SHARED, splits: int = 1) -> None:
    """Prints the table."""
    print(f"{describe()}; K = {BUDGET}, {SHOWN} samples of each model\n")
    heads = "matrix | new models: | predicted: | failed: | of all left:"
    engine.print_table(heads, measure(matrices, splits))


if __name__ == "__main__":
    engine.start(main)
