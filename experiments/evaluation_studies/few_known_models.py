"""Measures the coverage of the intervals of `recommended` if few models, or groups, are known.

New models may be unlike all of them.

python -m experiments.evaluation_studies.few_known_models ../shared/matrices/nlu_hellaswag.npz [MORE.npz] [--known=5] [--seeds=6]
"""  # noqa: E501

import argparse
from pathlib import Path

import jax
import numpy as np

from nevis_stream.dynamic_evaluation import methods
from nevis_stream.experiments.commands import make_parser, positive
from nevis_stream.experiments.machine import describe
from nevis_stream.queries.oracle import MatrixOracle
from nevis_stream.storage.reading import read_npz

NEW = 60  # at most this many new models in a split


def main() -> None:
    """Prints a row for each matrix and way to choose the known models."""
    parser = make_parser(__doc__)
    parser.add_argument("matrices", type=Path, nargs="+")
    parser.add_argument("--known", type=positive, default=5)
    parser.add_argument("--seeds", type=positive, default=6)
    parser.add_argument("--budget", type=positive, default=64)
    options = parser.parse_args()
    print(f"{describe()}; n' = {options.budget}\n")
    print(
        "| matrix | known | covered, mean | … of each split | mean width"
        " |\n|---|---|---:|---|---:|",
        flush=True,
    )
    for path in options.matrices:
        file = read_npz(path)
        outcomes, groups = file["correct"], file.get("group")
        for by_group in (False, True) if groups is not None else (False,):
            splits = [
                measure_coverage(outcomes, groups if by_group else None, seed, options)
                for seed in range(options.seeds)
            ]
            inside, width = np.array(splits).T
            known = f"{options.known} {'groups' if by_group else 'models'}"
            parts = ", ".join(f"{value:.2f}" for value in inside)
            print(
                f"| {path.stem} | {known} | {inside.mean():.3f} | {parts} | {width.mean():.3f} |",
                flush=True,
            )


def measure_coverage(
    outcomes: np.ndarray, groups: np.ndarray | None, seed: int, options: argparse.Namespace
) -> tuple[float, float]:
    """Returns the fraction of new models whose accuracy is in its interval, and the mean width."""
    random = np.random.default_rng([seed, options.known])
    unit = np.arange(len(outcomes)) if groups is None else groups
    known = np.isin(unit, random.choice(np.unique(unit), options.known, replace=False))
    new = random.permutation(np.flatnonzero(~known))[:NEW]
    fitting, key = jax.random.split(jax.random.key(seed))
    evaluator = methods.get("recommended").fit(
        outcomes[known], None if groups is None else list(groups[known]), fitting
    )
    estimate = evaluator.evaluate(MatrixOracle(outcomes[new]), len(new), options.budget, key)
    truth = outcomes[new].mean(axis=1)
    return float(((estimate.low <= truth) & (truth <= estimate.high)).mean()), float(
        (estimate.high - estimate.low).mean()
    )


if __name__ == "__main__":
    from nevis_stream.launch import entry

    entry.guard(main)
