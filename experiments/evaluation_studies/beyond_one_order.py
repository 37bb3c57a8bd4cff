"""Measures `recommended` against the targets for methods beyond one rank order.

python -m experiments.evaluation_studies.beyond_one_order [--seeds=10] [--print_only]

Results are written to beyond_one_order.jsonl, a line for each method and split; started
again, it continues. All matrices get the first seed before any gets the second.
"""

import os
from collections import defaultdict
from pathlib import Path

import numpy as np
from absl import flags

from nevis_stream.dynamic_evaluation import method_study
from nevis_stream.storage.npz import read_npz

SEEDS = flags.DEFINE_integer("seeds", 10, "splits of each matrix")
PRINT_ONLY = flags.DEFINE_bool("print_only", False, "print what the file holds, compute nothing")
FILE = Path(__file__).with_name("beyond_one_order.jsonl")
METHODS = ("published", "sort_and_search", "single_order_floor", "stratified_mean", "recommended")
BUDGETS = (16, 64, 256)
LARGE = ("mmlu_pro", "nlu_concat15", "nlu_hellaswag", "nlu_mnli", "nlu_qamr")  # n ≥ 5,000
MEASURED = (*method_study.MEASURES, "seconds")
AIMS = {"all": {16: -0.15, 64: -0.20, 256: -0.30}, "n ≥ 5,000": {16: -0.12, 64: -0.12, 256: -0.14}}
SPEARMAN = {16: 0.88, 64: 0.94, 256: 0.965}


def matrices():
    """Returns the matrices of the protocol, small ones first."""
    shared = Path(os.environ.get("NEVIS_STREAM_SHARED", "../shared"))
    studied = [
        method_study.Matrix(path.stem, arrays["correct"], arrays.get("group"))
        for path in sorted((shared / "matrices").glob("*.npz"))
        for arrays in (read_npz(path, ("correct", "group")),)
    ]
    return sorted(
        (m for m in studied if len(m.values) >= 28 and m.values.shape[1] >= 400),
        key=lambda m: m.values.size,
    )


def table(rows):
    """Returns means over seeds by (method, budget, column) and matrix, and the number of seeds.

    Only seeds with results for all methods and budgets count.
    """
    results = defaultdict(dict)
    for row in rows:
        results[row["matrix"], row["seed"]][row["method"], row["budget"]] = row
    whole = {
        key: result for key, result in results.items() if len(result) == len(METHODS) * len(BUDGETS)
    }
    names = sorted({name for name, _ in results})
    means = defaultdict(dict)
    for name in names:
        seeds = [result for (matrix, _), result in whole.items() if matrix == name]
        for method in METHODS:
            for budget in BUDGETS:
                for column in MEASURED:
                    if seeds:
                        means[method, budget, column][name] = np.mean(
                            [result[method, budget][column] for result in seeds]
                        )
    return means, {name: sum(matrix == name for matrix, _ in whole) for name in names}


def verdict(holds):
    """Returns in words whether a target is met."""
    return "holds" if holds else "does not hold"


def report(rows):
    """Prints the tables and whether the targets are met."""
    means, seeds = table(rows)
    names = list(means["published", 16, "mae"])
    print(
        f"{len(names)} matrices; seeds of each: {min(seeds.values())} to {max(seeds.values())}.\n"
    )

    def mean(method, budget, column, matrices=names):
        return np.mean([means[method, budget, column][name] for name in matrices])

    print("| measure | n' | measured | target | |\n|---|---:|---:|---:|---|")
    large = [name for name in names if name in LARGE]
    for group, matrices in (("all", names), ("n ≥ 5,000", large)):
        for budget, aim in AIMS[group].items():
            ours = np.array([means["recommended", budget, "mae"][name] for name in matrices])
            published = np.array([means["published", budget, "mae"][name] for name in matrices])
            for measure, value in (
                (f"MAE against published, {group}: ratio of means", ours.mean() / published.mean()),
                ("… mean of ratios", (ours / published).mean()),
            ):
                change = value - 1
                print(
                    f"| {measure} | {budget} | {change:+.1%} | {aim:+.0%} |"
                    f" {verdict(change <= aim)} |"
                )
    for budget in (64, 256):
        ours, floor = mean("recommended", budget, "mae"), mean("single_order_floor", budget, "mae")
        print(
            f"| MAE below the single-order floor | {budget} | {ours:.4f} | {floor:.4f} |"
            f" {verdict(ours < floor)} |"
        )
    for budget, aim in ((16, -0.3), (64, 0), (256, 0)):
        change = (
            mean("recommended", budget, "accuracy_error")
            / mean("stratified_mean", budget, "accuracy_error")
            - 1
        )
        print(
            f"| accuracy error against stratified mean | {budget} | {change:+.1%} | {aim:+.0%} |"
            f" {verdict(change <= aim)} |"
        )
    for budget, aim in SPEARMAN.items():
        value = mean("recommended", budget, "spearman")
        print(f"| Spearman | {budget} | {value:.3f} | {aim} | {verdict(value >= aim)} |")
    for budget in BUDGETS:
        value = mean("recommended", budget, "coverage95")
        word = verdict(0.92 <= value <= 0.98) if budget == 64 else ""
        print(
            f"| coverage of 95% intervals | {budget} | {value:.1%} |"
            f" {'92–98%' if budget == 64 else ''} | {word} |"
        )

    print(
        "\n| matrix | seeds | MAE against published at 16 / 64 / 256 | against sort_and_search | "
        "accuracy error against stratified | Spearman | coverage |\n|---|---:|---|---|---|---|---|"
    )
    for name in names:

        def against(column, other, name=name):
            values = [
                means["recommended", b, column][name] / means[other, b, column][name] - 1
                for b in BUDGETS
            ]
            return " / ".join(f"{value:+.0%}" for value in values)

        def own(column, form, name=name):
            return " / ".join(format(means["recommended", b, column][name], form) for b in BUDGETS)

        print(
            f"| {name} | {seeds[name]} | {against('mae', 'published')} |"
            f" {against('mae', 'sort_and_search')} | {against('accuracy_error', 'stratified_mean')}"
            f" | {own('spearman', '.3f')} | {own('coverage95', '.0%')} |"
        )
    print(
        "\n| method | MAE | accuracy error | Spearman | Kendall | coverage | seconds"
        " |\n|---|---|---|---|---|---|---|"
    )
    for method in METHODS:
        shown = [
            " / ".join(format(mean(method, budget, column), form) for budget in BUDGETS)
            for column, form in zip(
                MEASURED, (".4f", ".4f", ".3f", ".3f", ".3f", ".1f"), strict=True
            )
        ]
        print(f"| {method} | {' | '.join(shown)} |")


def main(_):
    """Runs the study and prints it."""
    record = method_study.open_record(FILE)
    for seeds in () if PRINT_ONLY.value else range(1, SEEDS.value + 1):
        for matrix in matrices():
            for row in method_study.run(
                [matrix], method_study.StudyDesign(METHODS, BUDGETS, seeds=seeds), record
            ):
                if row["method"] == "recommended":
                    print(
                        {k: row[k] for k in ("matrix", "budget", "seed", "mae", "seconds")},
                        flush=True,
                    )
    report(method_study.read(record))


if __name__ == "__main__":
    from nevis_stream.launch import entry

    entry.start(main)
