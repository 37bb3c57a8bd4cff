"""Sessions that end when their interval is short enough: samples used, and coverage at the end.

    python -m experiments.evaluation_studies.stopping [--splits=10]

New models of `metabench_gsm8k`, like 400 known ones, answer samples in random order until the 95%
interval, which holds at every number of answers, has a half-width of .05. `mean` bets for this
width on the answers alone; `predictions` also uses the expected values of a fitted item response
model, made anew after each block of answers; `any distance` is the sequence of bets that does not
know the width. Fixed-K intervals are those of as many samples as give a mean half-width of .05:
plain random draws (Wald, with the finite-population correction), and `model_assisted`.
"""

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pandas as pd

from nevis_stream.dynamic_evaluation import methods
from nevis_stream.dynamic_evaluation.stopping import BLOCK, GrowingIntervals, PredictValues
from nevis_stream.estimation.intervals import compute_wilson
from nevis_stream.experiments import engine
from nevis_stream.experiments.evaluation_studies import SHARED
from nevis_stream.experiments.evaluation_studies.any_model import load_matrix, make_design
from nevis_stream.experiments.evaluation_studies.efficiency import MATRIX, compute_uniform_width
from nevis_stream.experiments.evaluation_studies.method_study import split
from nevis_stream.experiments.scripts import describe
from nevis_stream.queries.oracle import MatrixOracle, Query, Responses

HALF, NEW = 0.05, 100
METHOD = "random+irt_multidimensional"
KINDS = ("any distance", "mean", "predictions")
FIRST = 1  # split
BAR = 1.8


def measure(folder: Path, seed: int) -> tuple[pd.DataFrame, int, int]:
    """Returns samples used and coverage of each kind and new model, and the numbers of samples of
    the two fixed-K intervals.
    """
    matrix = load_matrix(folder, MATRIX)
    known, truth = split(matrix, dataclasses.replace(make_design(matrix, "like"), new=NEW), seed)
    fit_key, key = jax.random.split(jax.random.key(seed))
    method = dataclasses.replace(methods.get(METHOD), cross_validated=False)
    evaluator = method.fit(known, None, fit_key)
    random, facts, rows = np.random.default_rng([seed, 1]), known.facts, []
    orders = np.stack([random.permutation(facts.n) for _ in truth])
    drawn = np.take_along_axis(truth, orders, axis=1)
    total, seen = known.column_sums()
    start = np.broadcast_to((total + 1) / (seen + 2), truth.shape)
    # the predictions of all models together, one block after the other
    blocks = {0: start}
    for count in range(BLOCK, facts.n, BLOCK):
        answers = Responses(Query(orders[:, :count]), drawn[:, :count])
        blocks[count] = evaluator.predict(answers, facts.n).values
    for model, (order, values) in enumerate(zip(orders, drawn, strict=True)):
        track = SimpleNamespace(drawn=tuple(order.tolist()), drawn_values=values.astype(float))

        def predict(columns: np.ndarray, _: np.ndarray, model: int = model) -> np.ndarray:
            return blocks[len(columns)][model]

        help_of: dict[str, tuple[float | None, PredictValues | None]] = {
            "any distance": (None, None),
            "mean": (HALF, None),
            "predictions": (HALF, predict),
        }
        for kind in KINDS:
            low, high = GrowingIntervals(facts, False, *help_of[kind]).read(track)
            end = int(np.argmax(high - low <= 2 * HALF + 1e-9))
            inside = low[end] - 1e-9 <= truth[model].mean() <= high[end] + 1e-9
            rows.append({"kind": kind, "used": end + 1, "covered": inside})
    plain = next(
        k for k in range(1, facts.n + 1) if compute_uniform_width(truth, k).mean() <= 2 * HALF
    )
    drawing = methods.get("model_assisted").fit(known, None, fit_key)
    for count in range(60, facts.n, 5):
        found = drawing.evaluate(MatrixOracle(truth), len(truth), count, key)
        if (found.high - found.low).mean() <= 2 * HALF:
            break
    return pd.DataFrame(rows).assign(split=seed), plain, count


def main(matrices: Path = SHARED, splits: int = 10) -> None:
    """Prints a row for each kind."""
    seeds = range(FIRST, FIRST + splits)
    frames, plain, assisted = zip(*(measure(matrices, each) for each in seeds), strict=True)
    fixed = np.mean(plain), np.mean(assisted)
    print(f"{describe()}; {MATRIX}, like, {splits} splits, half-width {HALF}\n")
    print(f"Fixed K: {fixed[0]:.0f} plain random draws, {fixed[1]:.0f} of model_assisted\n")
    rows, table = pd.concat(frames), []
    for kind in KINDS:
        part = rows[rows["kind"] == kind]
        covered, used = part["covered"].mean(), part["used"].mean()
        (low,), (high,) = compute_wilson(np.array([covered]), float(len(part)))
        means = part.groupby("split")["used"].mean()
        spread = f"{means.min():.0f} to {means.max():.0f}"
        interval = f"{covered:.3f} ({low:.3f}–{high:.3f})"
        ratios = (f"{used / each:.2f}" for each in fixed)
        table.append([kind, len(part), f"{used:.0f}", spread, interval, *ratios, BAR])
    engine.print_table(
        "bets | n: | samples, mean: | … of splits | covered | ÷ plain: | ÷ model_assisted: | bar:",
        table,
    )


if __name__ == "__main__":
    engine.start(main)
