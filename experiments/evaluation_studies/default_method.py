"""Measures the method that `launch.evaluate add-model` chooses where none is named.

python -m experiments.evaluation_studies.default_method --out=FOLDER [--matrices=mmlu_pro,…] [--splits=10]
python -m experiments.evaluation_studies.default_method --out=FOLDER --print_only

The splits are those of `acquisition`. On each, the candidates and the stratified mean
are fitted to the known models; their cross-validation errors choose one for each budget, as without
`--method` (except that nothing limits its FLOPs), and its estimates of the new models are compared
with the truth. A method named `default` has the chosen method's results. The record has a line for
each matrix and split, which is not computed again.
"""  # noqa: E501

from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import pandas as pd

from nevis_stream.dynamic_evaluation import choice, method_study, methods
from nevis_stream.dynamic_evaluation.known_models import count_groups
from nevis_stream.dynamic_evaluation.method_study import Matrix, StudyDesign
from nevis_stream.experiments.evaluation_studies.acquisition import (
    BASELINE,
    BUDGETS,
    NEW,
    REFERENCES,
    load,
    print_table,
)
from nevis_stream.experiments.scripts import describe, make_parser, parse_positive
from nevis_stream.queries.oracle import MatrixOracle
from nevis_stream.storage.study_record import StudyRecord

DEFAULT = "default"
SPLITS_TOGETHER = 5  # after which compiled programs are dropped, as they fill the memory
MOST_LOSS = 0.03  # of the default against the stratified mean, averaged over cells


def main() -> None:
    """Runs what is missing, and prints the tables."""
    parser = make_parser(__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of the record")
    parser.add_argument(
        "--matrices", default=",".join(REFERENCES), help="names, separated by commas"
    )
    parser.add_argument("--splits", type=parse_positive, default=10)
    parser.add_argument("--print_only", action="store_true", help="run nothing")
    options = parser.parse_args()
    record = StudyRecord(options.out / "study.jsonl", {"budgets": BUDGETS, "new": NEW})
    names, parts = options.matrices.split(","), []
    if not options.print_only:
        # all matrices have some splits before one has all of them
        for start in range(0, options.splits, SPLITS_TOGETHER):
            for name in names:
                jax.clear_caches()
                for seed in range(start, min(start + SPLITS_TOGETHER, options.splits)):
                    cell = {"matrix": name, "seed": seed}
                    if cell not in record:
                        record.add(cell, list(measure_candidates(*load(name), seed)))
                        print(f"{name}, split {seed}", flush=True)
    for name in names:
        if results := [row for row in record.rows() if row["matrix"] == name]:
            parts.append(pd.DataFrame(results))
            print_table(name, parts[-1])
    if parts:
        print_verdict(pd.concat(parts))
    print(describe())


def measure_candidates(matrix: Matrix, fraction: float, seed: int) -> Iterator[dict]:
    """Yields the results of each candidate and of the default at each budget on one split."""
    design = StudyDesign((), BUDGETS, fraction, new=NEW)
    known, truth = method_study.split(matrix, design, seed)
    fit_key, key = jax.random.split(jax.random.key(seed))
    candidates = (*choice.CANDIDATES, methods.choose_stratified(known).name)
    evaluators = {
        name: methods.get(name).fit(known, None, fit_key)
        for name in dict.fromkeys((*candidates, BASELINE))
    }
    for budget in BUDGETS:
        results, errors = {}, {}
        for name, evaluator in evaluators.items():
            estimates = evaluator.evaluate(
                MatrixOracle(truth), len(truth), budget, jax.random.fold_in(key, budget)
            )
            results[name] = method_study.measure_errors(estimates, truth, known.facts)
            if name in candidates:
                errors[name] = evaluator.errors(budget)
        chosen, _ = choice.choose_best(
            errors, choice.choose_default(budget, known), count_groups(known)
        )
        for name, measured in (*results.items(), (DEFAULT, results[chosen])):
            yield {
                "method": name,
                "budget": budget,
                "chosen": chosen,
                # by which another rule of choice can be tried without computing anything again
                "validated": np.abs(errors[name]) if name in errors else None,
                **measured,
            }


def print_verdict(results: pd.DataFrame) -> None:
    """Prints the default against the stratified mean over all cells of matrix × budget, coverage by
    budget, and how often each method was chosen.
    """
    cells = results.pivot_table(
        index=["matrix", "budget", "seed"], columns="method", values="accuracy_error"
    )
    grouped = (cells[DEFAULT] - cells[BASELINE]).groupby(["matrix", "budget"])
    losses = grouped.mean() / grouped.sem()
    means = cells.groupby(["matrix", "budget"]).mean()
    relative = means[DEFAULT] / means[BASELINE]
    print(
        f"\nDefault against the stratified mean, {len(relative)} cells: errors"
        f" {relative.mean() - 1:+.0%} on average (bar: at most {MOST_LOSS:+.0%})"
    )
    if losses.notna().any():  # of two splits or more
        name, budget = losses.idxmax()
        print(f"worst cell: {name}, K = {budget}: {losses.max():+.1f} standard errors (bar: +3.0)")
    covered = results.pivot_table(index="method", columns="budget", values="coverage95")
    print("\n| covered | " + " | ".join(f"K = {budget}" for budget in covered.columns) + " |")
    print("|---|" + "---:|" * len(covered.columns))
    for name, fractions in covered.iterrows():
        print(f"| `{name}` | " + " | ".join(f"{fraction:.3f}" for fraction in fractions) + " |")
    ours = results[results["method"] == DEFAULT]
    counts = ours.groupby(["budget", "chosen"]).size().unstack(fill_value=0)
    print(f"\nChosen, of all splits of {ours['matrix'].nunique()} matrices:\n")
    print("| K | " + " | ".join(f"`{name}`" for name in counts.columns) + " |")
    print("|---:|" + "---:|" * len(counts.columns))
    for budget, row in counts.iterrows():
        print(f"| {budget} | " + " | ".join(str(count) for count in row) + " |")


if __name__ == "__main__":
    from nevis_stream.launch import entry

    entry.guard(main)
