"""Measures `recommended` against the targets for methods beyond one rank order.

python -m experiments.evaluation_studies.beyond_one_order [--seeds=10] [--print_only]

Results are written to beyond_one_order.jsonl, a line for each method and split; started
again, it continues. All matrices get the first seed before any gets the second.
"""

from pathlib import Path

import pandas as pd

from nevis_stream.experiments import engine
from nevis_stream.experiments.evaluation_studies import SHARED, method_study
from nevis_stream.storage.reading import read_npz

FILE = Path(__file__).with_name("beyond_one_order.jsonl")
METHODS = ("published", "sort_and_search", "single_order_floor", "stratified_mean", "recommended")
BUDGETS = (16, 64, 256)
LARGE = ("mmlu_pro", "nlu_concat15", "nlu_hellaswag", "nlu_mnli", "nlu_qamr")  # n ≥ 5,000
MEASURED = (*method_study.MEASURES, "seconds")
AIMS = {"all": {16: -0.15, 64: -0.20, 256: -0.30}, "n ≥ 5,000": {16: -0.12, 64: -0.12, 256: -0.14}}
SPEARMAN = {16: 0.88, 64: 0.94, 256: 0.965}


def read_matrices():
    """Returns the matrices of the protocol, small ones first."""
    studied = [
        method_study.StudiedMatrix(path.stem, arrays["correct"], arrays.get("group"))
        for path in sorted(SHARED.glob("*.npz"))
        for arrays in (read_npz(path, ("correct", "group")),)
    ]
    return sorted(
        (m for m in studied if len(m.values) >= 28 and m.values.shape[1] >= 400),
        key=lambda m: m.values.size,
    )


def make_table(rows):
    """Returns means over seeds, a column for each measure, method and budget, and the number of
    seeds of each matrix. Only seeds with results for all methods and budgets count.
    """
    wide = pd.DataFrame(rows).pivot(
        index=["matrix", "seed"], columns=["method", "budget"], values=list(MEASURED)
    )
    needed = [("mae", method, budget) for method in METHODS for budget in BUDGETS]
    by_matrix = wide.dropna(subset=needed).groupby("matrix")
    return by_matrix.mean().sort_index(axis=1), by_matrix.size()


def state_verdict(holds):
    """Returns in words whether a target is met."""
    return "holds" if holds else "does not hold"


def report(rows):
    """Prints the tables and whether the targets are met."""
    means, seeds = make_table(rows)
    print(f"{len(means)} matrices; seeds of each: {seeds.min()} to {seeds.max()}.\n")
    mean = means.mean()

    def row(measure, budget, value, aim, form, holds=None):
        word = "" if holds is None else state_verdict(holds)
        print(f"| {measure} | {budget} | {value:{form}} | {aim} | {word} |")

    print("| measure | n' | measured | target | |\n|---|---:|---:|---:|---|")
    mae = means["mae"]
    for group, part in (("all", mae), ("n ≥ 5,000", mae[mae.index.isin(LARGE)])):
        for budget, aim in AIMS[group].items():
            ours, published = part["recommended", budget], part["published", budget]
            for measure, value in (
                (f"MAE against published, {group}: ratio of means", ours.mean() / published.mean()),
                ("… mean of ratios", (ours / published).mean()),
            ):
                row(measure, budget, value - 1, f"{aim:+.0%}", "+.1%", value - 1 <= aim)
    for budget in (64, 256):
        ours, floor = (mean["mae", name, budget] for name in ("recommended", "single_order_floor"))
        below = ours < floor
        row("MAE below the single-order floor", budget, ours, f"{floor:.4f}", ".4f", below)
    for budget, aim in ((16, -0.3), (64, 0), (256, 0)):
        errors = mean["accuracy_error"]
        change = errors["recommended", budget] / errors["stratified_mean", budget] - 1
        words = "accuracy error against stratified mean"
        row(words, budget, change, f"{aim:+.0%}", "+.1%", change <= aim)
    for budget, aim in SPEARMAN.items():
        value = mean["spearman", "recommended", budget]
        row("Spearman", budget, value, aim, ".3f", value >= aim)
    for budget in BUDGETS:
        value = mean["coverage95", "recommended", budget]
        aim, holds = ("92–98%", 0.92 <= value <= 0.98) if budget == 64 else ("", None)
        row("coverage of 95% intervals", budget, value, aim, ".1%", holds)
    print(
        "\n| matrix | seeds | MAE against published at 16 / 64 / 256 | against sort_and_search | "
        "accuracy error against stratified | Spearman | coverage |\n|---|---:|---|---|---|---|---|"
    )

    def join(values, form):
        return " / ".join(format(value, form) for value in values)

    for name, of_matrix in means.iterrows():
        ratios = (
            join(of_matrix[measure, "recommended"] / of_matrix[measure, other] - 1, "+.0%")
            for measure, other in (
                ("mae", "published"),
                ("mae", "sort_and_search"),
                ("accuracy_error", "stratified_mean"),
            )
        )
        own = (
            join(of_matrix[measure, "recommended"], form)
            for measure, form in (("spearman", ".3f"), ("coverage95", ".0%"))
        )
        print(f"| {name} | {seeds[name]} | {' | '.join((*ratios, *own))} |")
    print(
        "\n| method | MAE | accuracy error | Spearman | Kendall | coverage | seconds"
        " |\n|---|---|---|---|---|---|---|"
    )
    forms = dict(zip(MEASURED, (".4f", ".4f", ".3f", ".3f", ".3f", ".1f"), strict=True))
    for method in METHODS:
        shown = [join(mean[measure, method], form) for measure, form in forms.items()]
        print(f"| {method} | {' | '.join(shown)} |")


def main(seeds: int = 10, print_only: bool = False):
    """Runs the study and prints it."""
    record = method_study.open_record(FILE)
    for split in () if print_only else range(1, seeds + 1):
        for matrix in read_matrices():
            for row in method_study.run(
                [matrix], method_study.StudyDesign(METHODS, BUDGETS, seeds=split), record
            ):
                if row["method"] == "recommended":
                    print(
                        {k: row[k] for k in ("matrix", "budget", "seed", "mae", "seconds")},
                        flush=True,
                    )
    report(method_study.read(record))


if __name__ == "__main__":
    engine.start(main)
