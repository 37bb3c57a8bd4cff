"""Coverage of intervals of the mean over a population, by drawing "these samples" from a matrix.

    python -m experiments.evaluation_studies.populations [--draws=20] [--methods=…] [--budget=50]

In each draw the samples are drawn with replacement from those of a matrix, whose mean over all is
then the population's: one by one, or as clusters (categories of `mmlu_pro`, some samples of each).
60% of the models are known, at most 10 others are new. The columns: the interval of the mean over
these samples, which is not meant to contain the population's, that of `population=superpopulation`,
and with `clusters`.
"""

from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np

from nevis_stream.dynamic_evaluation.estimates import Population, Widening
from nevis_stream.dynamic_evaluation.methods import get
from nevis_stream.estimation.intervals import compute_wilson
from nevis_stream.experiments import engine
from nevis_stream.experiments.evaluation_studies import SHARED
from nevis_stream.experiments.evaluation_studies.model_splits import split
from nevis_stream.experiments.scripts import describe
from nevis_stream.queries.matrix import ArrayMatrix
from nevis_stream.queries.oracle import MatrixOracle
from nevis_stream.queries.samples import SampleFacts, make_unknown_cells
from nevis_stream.storage.reading import read_npz

SIZE, CLUSTERS, NEW = 300, 10, 10
WAYS = ("these samples", "superpopulation", "with clusters")


def simulate_draws(
    folder: Path, count: int
) -> Iterator[tuple[str, int, np.ndarray, np.ndarray, np.ndarray]]:
    """Yields a name, seed, outcomes uint8[m, n] of drawn samples, the population's mean of each
    model, float64[m], and the cluster of each sample, int64[n].
    """
    for seed in range(count):
        random = np.random.default_rng(seed)
        outcomes = read_npz(folder / "metabench_gsm8k.npz")["correct"]
        rows = random.choice(len(outcomes), 150, replace=False)
        columns = random.integers(outcomes.shape[1], size=SIZE)
        means = outcomes[rows].mean(axis=1)
        yield "metabench_gsm8k", seed, outcomes[np.ix_(rows, columns)], means, np.arange(SIZE)
        file = read_npz(folder / "mmlu_pro.npz")
        outcomes, category = file["correct"], file["category"]
        columns = random.integers(outcomes.shape[1], size=SIZE)
        yield "mmlu_pro", seed, outcomes[:, columns], outcomes.mean(axis=1), np.arange(SIZE)
        names = np.unique(category)
        drawn = [
            random.choice(np.flatnonzero(category == name), SIZE // CLUSTERS)
            for name in random.choice(names, CLUSTERS)
        ]
        # each category has the same weight, as each is drawn with the same probability
        means = np.mean([outcomes[:, category == name].mean(axis=1) for name in names], axis=0)
        cluster = np.repeat(np.arange(CLUSTERS), SIZE // CLUSTERS)
        columns = np.concatenate(drawn)
        yield "mmlu_pro, categories drawn", seed, outcomes[:, columns], means, cluster


def measure(
    method: str,
    budget: int,
    outcomes: np.ndarray,
    means: np.ndarray,
    cluster: np.ndarray,
    seed: int,
) -> list[tuple[list[bool], list[float]]]:
    """Returns for each new model whether each interval contains the population's mean, and its
    width, in the order of `WAYS`.
    """
    known, new = split(len(outcomes), None, 0.6, seed)
    new = new[:NEW]
    models = ArrayMatrix(outcomes[known], None, SampleFacts(outcomes.shape[1]))
    fit_key, key = jax.random.split(jax.random.key(seed))
    evaluator = get(method).fit(models, None, fit_key)
    estimates = evaluator.evaluate(MatrixOracle(outcomes[new]), len(new), budget, key)
    results, columns = [], np.arange(outcomes.shape[1])
    widenings = [
        Widening(population, models, columns)
        for population in (Population(), Population(cluster, ""))
    ]
    for i, model in enumerate(new.tolist()):
        row = make_unknown_cells(outcomes.shape[1:], False)
        asked = estimates.answers.samples[i]
        row[asked] = outcomes[model, asked]
        each = estimates[i]
        ends = [(each.low, each.high)]
        own = [each.value, each.low, each.high]
        for widening in widenings:
            ends.append(tuple(widening.widen(own, row, estimates.values[i])[1:]))
        inside = [bool(low <= means[model] <= high) for low, high in ends]
        results.append((inside, [high - low for low, high in ends]))
    return results


def main(
    matrices: Path = SHARED,
    draws: int = 20,
    budget: int = 50,
    methods: str = "stratified_mean,model_assisted,adaptive_testing",
) -> None:
    """Prints a row for each matrix and method."""
    found: dict[tuple[str, str], list] = {}
    for name, seed, outcomes, means, cluster in simulate_draws(matrices, draws):
        for method in methods.split(","):
            rows = measure(method, budget, outcomes, means, cluster, seed)
            found.setdefault((name, method), []).extend(rows)
    print(f"{describe()}; K = {budget} of {SIZE} samples, {draws} draws\n")
    table = []
    for (name, method), rows in found.items():
        inside, width = (np.array(each, float) for each in zip(*rows, strict=True))
        cells = []
        for place in range(len(WAYS)):
            covered = inside[:, place].mean()
            (low,), (high,) = compute_wilson(covered[None], float(len(rows)))
            cells.append(f"{covered:.2f} ({low:.2f}–{high:.2f}), {width[:, place].mean():.3f}")
        if "categories" not in name:
            cells[-1] = ""
        table.append([name, f"`{method}`", len(rows), *cells])
    ways = [f"{way}: covered, width" for way in WAYS]
    engine.print_table(" | ".join(["samples from | method | n:", *ways]), table)


if __name__ == "__main__":
    engine.start(main)
