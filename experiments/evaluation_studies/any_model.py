"""Estimates of models like the known ones, stronger and weaker ones, those of another kind,
guessers and broken ones.

    python -m experiments.evaluation_studies.any_model run --out=FOLDER [--regimes=other]
    python -m experiments.evaluation_studies.any_model table --out=FOLDER

`run` adds the cells that FOLDER/study.jsonl lacks, all splits of one matrix after another, and
may be stopped at any time; `table` prints error, coverage and width, means over new models
and splits, then each regime over all matrices, which weigh the same, with bootstrap intervals over
new models.
"""

import functools
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pandas as pd

from nevis_stream.dynamic_evaluation import methods as all_methods
from nevis_stream.estimation.intervals import compute_wilson
from nevis_stream.experiments import engine
from nevis_stream.experiments.evaluation_studies import SHARED, factorized_querying
from nevis_stream.experiments.evaluation_studies.method_study import (
    StudiedMatrix,
    StudyDesign,
    split,
)
from nevis_stream.experiments.evaluation_studies.model_splits import ModelSplit, read_model_facts
from nevis_stream.experiments.methods import choice
from nevis_stream.experiments.scripts import describe
from nevis_stream.experiments.study_record import StudyRecord
from nevis_stream.queries.oracle import ANY_MODEL, Estimate, MatrixOracle
from nevis_stream.queries.samples import UNKNOWN
from nevis_stream.storage.reading import read_npz

FAQ = "faq"
# of which `default` is what `add-model` uses unless another method is clearly better in
# cross-validation, guarded; `unguarded` the same method as it is
METHODS = ("default", "unguarded", "model_assisted", "stratified_mean", FAQ)
PASSES = (METHODS[:1], METHODS[1:-1], METHODS[-1:])  # the last method takes much longer than others
BUDGETS = ((20, 50), (100, 200))  # those of a cell, which share their fits
# by name of a row of the table: file, number of known models (None: 60%, or 80% of the rest)
MATRICES = {
    "zeroeval_crux": ("zeroeval_crux", None),
    "metabench_gsm8k, 400 known": ("metabench_gsm8k", 400),
    "alpaca_eval2": ("alpaca_eval2", None),
    "cifar10.1_v6": ("cifar10.1_v6", None),
    "mmlu_pro": ("mmlu_pro", None),
    "nlu_concat15, 2000 samples": ("nlu_concat15", None),
}
DRAWN = 2000  # samples of `nlu_concat15`, of 45,000
SMALL = tuple(MATRICES)[:-1]
# how the models of each matrix are divided
REGIMES = {
    "like": dict.fromkeys(SMALL, ""),
    "stronger": dict.fromkeys(SMALL, "stronger"),
    "weaker": dict.fromkeys(SMALL, "weaker"),
    "other": {
        "alpaca_eval2": "biased:weights=open",
        "nlu_concat15, 2000 samples": "biased:roberta*",
    },
}
FACTS = Path(__file__).parents[1] / "studies" / "alpaca_eval2_models.csv"
ODD = ("metabench_gsm8k, 400 known", "mmlu_pro")  # where guessers and the like are made as well
NEW, OF_A_KIND = 10, 5
FIRST = 5  # split; the rule of `guarded` was chosen on the ones before
DRAWS = 2000  # of the bootstrap
BESIDE = ("unguarded", "stratified_mean")  # with which errors are compared
LARGE = 1.3  # ratio of errors above which a cell is named


def load_matrix(folder: Path, name: str) -> StudiedMatrix:
    """Returns outcomes, of some samples where there are very many; those that the source lacks are
    unknown.
    """
    data = read_npz(folder / f"{MATRICES[name][0]}.npz")
    values, columns = data["correct"].astype(np.uint8), {}
    if "imputed" in data:
        values[data["imputed"] > 0] = UNKNOWN
    if name == "alpaca_eval2":
        columns = read_model_facts(FACTS, data["models"].tolist())
    if name.startswith("nlu"):
        drawn = np.random.default_rng(0).choice(values.shape[1], DRAWN, replace=False)
        values = values[:, np.sort(drawn)]
    return StudiedMatrix(name, values, data.get("group"), columns=columns)


def make_design(matrix: StudiedMatrix, regime: str) -> StudyDesign:
    """Returns how its models are divided."""
    count, models = MATRICES[matrix.name][1], len(matrix.values)
    rest = models if regime == "like" else models - round(0.25 * models)
    known = count / rest if count else 0.6 if regime == "like" else 0.8
    way = ModelSplit.parse(REGIMES[regime][matrix.name])
    return StudyDesign((), (), known, new=NEW, model_split=way)


def simulate_odd_models(truth: np.ndarray, seed: int) -> tuple[np.ndarray, list[str]]:
    """Returns guessers (right with a probability of .25), broken models (40% of the answers of a
    median model set to 0) and perfect ones, [m, n], and the kind of each.
    """
    random, n = np.random.default_rng([seed, 7]), truth.shape[1]
    median = truth[np.argsort(truth.mean(axis=1))[len(truth) // 2]]
    guessers = random.random((OF_A_KIND, n)) < 0.25
    broken = median * (random.random((OF_A_KIND, n)) >= 0.4)
    kinds = np.repeat(["guesser", "broken", "perfect"], OF_A_KIND).tolist()
    return np.concatenate([guessers, broken, np.ones((OF_A_KIND, n))]).astype(np.uint8), kinds


def measure(
    folder: Path,
    matrix: str,
    seed: int,
    regime: str,
    budgets: Sequence[int],
    methods: Sequence[str],
):
    """Yields a record of each method, budget and new model of a split."""
    studied = load_matrix(folder, matrix)
    known, truth = split(studied, make_design(studied, regime), seed)
    kinds = [regime] * len(truth)
    if regime == "like" and matrix in ODD:
        more, names = simulate_odd_models(truth, seed)
        truth, kinds = np.concatenate([truth, more]), kinds + names
    means = truth.mean(axis=1)
    fitted: dict[str, Any] = {}
    for method, budget in itertools.product(methods, budgets):
        used = method
        if method in ("default", "unguarded"):
            used = choice.choose_default(budget, known)
            used = choice.guard_name(used) if method == "default" else used
        fit_key, key = jax.random.split(jax.random.key(seed))
        if used not in fitted and used == FAQ:
            fitted[used] = factorized_querying.fit(known.values, seed)
        elif used not in fitted:
            fitted[used] = all_methods.get(used).fit(known, None, fit_key)
        if used == FAQ:
            estimates = [
                Estimate(*factorized_querying.evaluate(fitted[used], row, budget, seed))
                for row in truth
            ]
        else:
            estimates = fitted[used].evaluate(
                MatrixOracle(truth), len(truth), budget, jax.random.fold_in(key, budget)
            )
        each_model = zip(estimates, means, kinds, itertools.count())
        for estimate, mean, kind, model in each_model:
            yield {
                **{"kind": kind, "model": model, "known": known.shape[0]},
                **{"method": method, "used": used, "budget": budget},
                "error": round(abs(estimate.value - mean), 4),
                "covered": bool(estimate.low - 1e-9 <= mean <= estimate.high + 1e-9),
                "width": round(estimate.high - estimate.low, 4),
                "any": estimate.holds_for == ANY_MODEL,
                "misfit": "misfit" in estimate.note,
            }


def record_of(out: Path) -> StudyRecord:
    """Opens the record in a folder."""
    return StudyRecord(out / "study.jsonl", {"budgets": BUDGETS, "new": NEW, "methods": METHODS})


def run(
    out: Path,
    matrices: Path = SHARED,
    first: int = FIRST,
    splits: int = 20,
    names: Sequence[str] = tuple(MATRICES),
    methods: Sequence[str] = METHODS,
    regimes: Sequence[str] = tuple(REGIMES),
    budgets: Sequence[int] = sum(BUDGETS, ()),
) -> None:
    """Adds the cells that the record lacks."""
    passes = [part for part in PASSES if set(part) & set(methods)]
    groups = [part for part in BUDGETS if set(part) & set(budgets)]
    # one split after the other: their shapes are the same, so they share compiled programs
    cells = (
        {"matrix": name, "seed": seed, "regime": regime, "budgets": budgets, "methods": used}
        for used, budgets, name in itertools.product(passes, groups, names)
        for regime, seed in itertools.product(regimes, range(first, first + splits))
        if name in REGIMES[regime]
    )
    engine.measure_missing(record_of(out), cells, functools.partial(measure, matrices))


def table(out: Path) -> None:
    """Prints markdown tables."""
    frame = pd.DataFrame(list(record_of(out).rows()))
    used = [method for method in METHODS if method in set(frame["method"])]
    print(f"{describe()}\n")
    rows = []
    for (regime, matrix, budget), part in frame.groupby(["kind", "matrix", "budget"]):
        line = [regime, matrix, budget, part["seed"].nunique()]
        line.append(int((part["method"] == METHODS[0]).sum()))
        for method in used:
            line.append(_cell(part[part["method"] == method]))
        rows.append(line)
    engine.print_table(" | ".join(["regime | matrix | K: | splits: | n:", *used]), rows)
    print()
    engine.print_table(
        "regime | K: | matrices: | n: | covered | least: | error: | ÷ unguarded:"
        " | ÷ stratified_mean: | most:",
        (
            pool(part, regime, budget)
            for (regime, budget), part in frame.groupby(["kind", "budget"])
        ),
    )
    for regime in REGIMES:
        part = frame[frame["kind"] == regime]
        if len(part):
            against = " and ".join(
                f"{compute_error_ratio(part, other)} of {other}" for other in BESIDE
            )
            print(f"\n{regime}, geometric mean over matrices and K: error {against}")
    print(f"\nabove {LARGE} of {BESIDE[1]}: {'; '.join(find_greater(frame)) or 'no cell'}")


def find_greater(frame: pd.DataFrame) -> list[str]:
    """Returns the cells in which the default's error is above 1.3 times the stratified mean's, with
    the whole bootstrap interval of the ratio.
    """
    found = []
    for (regime, matrix, budget), part in frame.groupby(["kind", "matrix", "budget"]):
        if regime in REGIMES and {METHODS[0], BESIDE[1]} <= set(part["method"]):
            ratio = compute_error_ratio(part, BESIDE[1])
            if float(ratio.split("(")[1].split("–")[0]) > LARGE:
                found.append(f"{regime}, {matrix}, {budget} samples: {ratio}")
    return found


def compute_error_ratio(part: pd.DataFrame, other: str) -> str:
    """Returns the default's mean error ÷ another method's on the same splits, as `show_ratio`."""
    means = part.groupby(["matrix", "budget", "seed", "method"])["error"].mean().unstack()
    both = means[[METHODS[0], other]].dropna()
    return show_ratio([cell.to_numpy() for _, cell in both.groupby(["matrix", "budget"])])


def show_ratio(cells: Sequence[np.ndarray]) -> str:
    """Returns the mean errors of one method ÷ those of another, float[splits, 2] of each cell, as a
    geometric mean over cells, with its 95% bootstrap interval over splits.
    """
    random = np.random.default_rng(0)
    logs = []
    for cell in cells:
        drawn = cell[random.integers(len(cell), size=(DRAWS, len(cell)))].mean(axis=1)
        drawn = np.concatenate([cell.mean(axis=0)[None], drawn])  # the first one is as it is
        logs.append(np.log(drawn[:, 0] / drawn[:, 1]))
    value, *drawn = np.exp(np.mean(logs, axis=0))
    low, high = np.quantile(drawn, [0.025, 0.975])
    return f"{value:.2f} ({low:.2f}–{high:.2f})"


def pool(part: pd.DataFrame, regime: str, budget: int) -> list[object]:
    """Returns a row of a regime and budget over all matrices, which weigh the same: coverage of
    the default with its 95% interval, the least of a matrix; the mean error, and as a geometric
    mean over matrices ÷ that of two other methods; and the most of the latter of a matrix.
    """
    own = part[part["method"] == METHODS[0]]
    covered = own.groupby("matrix")["covered"]
    # errors are compared on splits that all three have
    means = part.groupby(["matrix", "seed", "method"])["error"].mean().unstack()
    errors = means.reindex(columns=[METHODS[0], *BESIDE]).dropna().groupby("matrix").mean()
    random = np.random.default_rng(0)
    draws = [
        random.choice(each.to_numpy(float), (DRAWS, len(each))).mean(axis=1) for _, each in covered
    ]
    low, high = np.quantile(np.mean(draws, axis=0), [0.025, 0.975])
    line = [regime, budget, len(errors), len(own)]
    line.append(f"{covered.mean().mean():.3f} ({low:.3f}–{high:.3f})")
    line += [f"{covered.mean().min():.2f}", f"{errors[METHODS[0]].mean():.3f}"]
    if regime == "perfect" or errors.empty:  # errors nearly 0, or nothing to compare them with
        return [*line, "–", "–", "–"]
    ratios = [errors[METHODS[0]] / errors[other] for other in BESIDE]
    line += [f"{np.exp(np.log(each).mean()):.2f}" for each in ratios]
    return [*line, f"{ratios[1].max():.2f}"]


def _cell(part: pd.DataFrame) -> str:
    """Returns error, coverage with its interval, mean width, and the fraction for any model."""
    if part.empty:
        return "–"
    (low,), (high,) = compute_wilson(part["covered"].mean()[None], float(len(part)))
    any_model = part["any"].mean()
    text = f"{part['error'].mean():.3f}, {part['covered'].mean():.2f} ({low:.2f}–{high:.2f}),"
    text += f" {part['width'].mean():.3f}"
    if 0 < any_model < 1 or part["misfit"].any():
        text += f", any {any_model:.2f}, misfit {part['misfit'].mean():.2f}"
    return text


if __name__ == "__main__":
    engine.start(run, table)
