"""How short intervals are: at equal coverage, and as an effective sample size.

    python -m experiments.evaluation_studies.efficiency widths --out=FOLDER
    python -m experiments.evaluation_studies.efficiency size [--splits=5]

`widths` reads the record of `any_model` in FOLDER. The intervals of each method in each regime are
multiplied by one factor so that 95% of them contain the true mean, each matrix and number of
evaluations weighing the same; it prints their widths over those of Factorized Active Querying, in
the geometric mean over matrices. `size` evaluates new models of `metabench_gsm8k`, like 400 known
ones, by `model_assisted`; its effective sample size is the squared width of the interval of as many
plain random draws (Wald, with the finite-population correction) over its own.
"""

from pathlib import Path

import jax
import numpy as np
import pandas as pd

from nevis_stream.dynamic_evaluation import methods
from nevis_stream.estimation.intervals import NORMAL_975, compute_wilson
from nevis_stream.experiments import engine
from nevis_stream.experiments.evaluation_studies import SHARED
from nevis_stream.experiments.evaluation_studies.any_model import (
    FAQ,
    METHODS,
    REGIMES,
    load_matrix,
    make_design,
    record_of,
)
from nevis_stream.experiments.evaluation_studies.method_study import split
from nevis_stream.experiments.scripts import describe
from nevis_stream.queries.oracle import MatrixOracle

LEVEL = 0.95
MATRIX, BUDGETS = "metabench_gsm8k, 400 known", (50, 100, 200)
BARS = {100: 1.5, 200: 1.75}


def factor(rows: pd.DataFrame, level: float = LEVEL) -> float:
    """Returns by what intervals are multiplied, about their estimates, so that a fraction `level`
    of them contains the truth; each (matrix, budget) weighs the same.

    Args:
      rows: with the columns matrix, budget, error and width; an interval of width 0 whose error is
        not 0 cannot be scaled, and counts as infinite.
    """
    half = rows["width"].to_numpy() / 2
    error = rows["error"].to_numpy()
    needed = np.divide(error, half, out=np.where(error > 0, np.inf, 0.0), where=half > 0)
    sizes = rows.groupby(["matrix", "budget"])["error"].transform("size").to_numpy()
    order = np.argsort(needed)
    reached = np.cumsum(1 / sizes[order]) / (1 / sizes).sum()
    return float(needed[order][np.searchsorted(reached, level - 1e-9)])


def scale_widths(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns factor and mean scaled width of each regime, budget, matrix and method.

    Args:
      rows: with the columns kind (the regime), matrix, budget, method, error and width.
    """
    parts = []
    for (kind, method), part in rows.groupby(["kind", "method"]):
        by_cell = part.groupby(["budget", "matrix"], as_index=False)["width"].mean()
        scale = factor(part)
        extra = {"kind": kind, "method": method, "factor": scale, "width": scale * by_cell["width"]}
        parts.append(by_cell.assign(**extra))
    return pd.concat(parts, ignore_index=True)


def compare_widths(scaled: pd.DataFrame, to: str = FAQ) -> pd.Series:
    """Returns the widths of each regime, budget and method over those of another method, geometric
    mean over the matrices that both have.
    """
    keys = ["kind", "budget", "matrix"]
    pivot = scaled.pivot_table(index=keys, columns="method", values="width")
    logs = np.log(pivot.div(pivot[to], axis=0))
    return np.exp(logs.groupby(["kind", "budget"]).mean()).stack()


def on_common_splits(rows: pd.DataFrame) -> pd.DataFrame:
    """Returns the rows of the splits that were evaluated by all methods."""
    cell = ["kind", "matrix", "budget", "seed"]
    return rows[rows.groupby(cell)["method"].transform("nunique") == rows["method"].nunique()]


def widths(out: Path) -> None:
    """Prints a row for each regime and number of evaluations; each method on the splits that it has
    in common with the one that it is compared with.
    """
    rows = pd.DataFrame(record_of(out).rows())
    compared = set(REGIMES) & set(rows.loc[rows["method"] == FAQ, "kind"])
    rows = rows[rows["kind"].isin(compared)]
    names, relative, counts, factors = [name for name in METHODS if name != FAQ], {}, {}, []
    for name in names:
        pair = on_common_splits(rows[rows["method"].isin([name, FAQ])])
        scaled = scale_widths(pair)
        relative[name] = compare_widths(scaled).unstack()[name]
        own = pair[pair["method"] == name].groupby(["kind", "budget"])
        counts[name] = own["matrix"].agg(["nunique", "size"])
        for (kind, method), value in scaled.groupby(["kind", "method"])["factor"].first().items():
            factors.append(f"{kind}, {method} {value:.2f}")
    print(f"{describe()}\n")
    table = []
    for kind, budget in relative[names[0]].index:
        table.append([kind, budget])
        for name in names:
            matrices, count = counts[name].loc[(kind, budget)]
            table[-1].append(f"{relative[name][kind, budget]:.2f} ({count}, {matrices})")
    engine.print_table(f"{': | '.join(['regime | K', *names])}:", table)
    for kind, part in np.log(pd.DataFrame(relative)).groupby("kind"):
        means = np.exp(part.mean())
        shown = ", ".join(f"{name} {means[name]:.2f}" for name in names)
        print(f"\n{kind}, geometric mean over K: {shown}", end="")
    print(f"\n\nFactors: {'; '.join(dict.fromkeys(factors))}")


def compute_uniform_width(truth: np.ndarray, budget: int) -> np.ndarray:
    """Returns the width of the 95% Wald interval of plain draws without replacement, float64[m],
    of outcomes [m, n].
    """
    n = truth.shape[1]
    return 2 * NORMAL_975 * np.sqrt(truth.var(axis=1, ddof=1) * (1 / budget - 1 / n))


def size(matrices: Path = SHARED, splits: int = 5) -> None:
    """Prints a row for each number of evaluations."""
    matrix, results = load_matrix(matrices, MATRIX), []
    for seed in range(1, splits + 1):
        known, truth = split(matrix, make_design(matrix, "like"), seed)
        fit_key, key = jax.random.split(jax.random.key(seed))
        evaluator = methods.get("model_assisted").fit(known, None, fit_key)
        for budget in BUDGETS:
            found = evaluator.evaluate(MatrixOracle(truth), len(truth), budget, key)
            mean = truth.mean(axis=1)
            results.append(
                pd.DataFrame(
                    {
                        "budget": budget,
                        "seed": seed,
                        "covered": (found.low <= mean + 1e-9) & (mean <= found.high + 1e-9),
                        "error": np.abs(found.accuracy - mean),
                        "width": found.high - found.low,
                        "uniform": compute_uniform_width(truth, budget),
                    }
                )
            )
    print(f"{describe()}; {MATRIX}, like, model_assisted, {splits} splits\n")
    rows = []
    for budget, part in pd.concat(results).groupby("budget"):
        covered = part["covered"].mean()
        (low,), (high,) = compute_wilson(np.array([covered]), float(len(part)))
        means = part.groupby("seed")[["width", "uniform"]].mean()
        sizes = (means["uniform"] / means["width"]) ** 2
        effective = (part["uniform"].mean() / part["width"].mean()) ** 2
        spread = f"{effective:.2f} (splits {sizes.min():.2f} to {sizes.max():.2f})"
        error, width, uniform = (
            f"{part[name].mean():.3f}" for name in ("error", "width", "uniform")
        )
        interval = f"{covered:.2f} ({low:.2f}–{high:.2f})"
        bar = BARS.get(budget, "")
        rows.append((budget, len(part), error, interval, width, uniform, spread, bar))
    engine.print_table(
        "K: | n: | error: | covered | width: | of plain draws: | effective sample size | bar:", rows
    )


if __name__ == "__main__":
    engine.start(widths, size)
