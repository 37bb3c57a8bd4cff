"""New models compared on shared samples: intervals of differences, and the best of eight.

    python -m experiments.evaluation_studies.comparing_models [--repetitions=200]

First table: two models drawn at random answer K shared random samples; of the others 60%, at most
400, are known. The half-width of the interval of their difference is divided by what two separate
means, each of K samples of its own, would give, the root of the sum of their squared half-widths:
means of the draws alone, and means that are corrected by what is known of the samples, as the
difference is. Then a new model against a known one, divided by the half-width of the new one's
mean: of a difference that uses the shared samples alone, and of the one that is given.
Second table: eight models drawn at random answer ten samples each in turn, until the best is
decided with an error of at most 5%, or 200 answers a model are spent, where those of models that
are out go to the others; then, of the models that may still be the best, the one with the highest
mean is named. Equal shares: all eight are asked until the best is decided, or each has 200 answers.
Beside it the same if no model may have more than 200.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from nevis_stream.estimation.comparison import (
    Difference,
    compare_pair,
    decide,
    make_covariates,
    share_answers,
)
from nevis_stream.estimation.intervals import compute_wilson
from nevis_stream.experiments import engine
from nevis_stream.experiments.evaluation_studies import SHARED
from nevis_stream.experiments.scripts import describe
from nevis_stream.storage.reading import read_npz

MATRICES = ("metabench_gsm8k", "nlu_concat15", "zeroeval_crux")
BUDGETS = (20, 50, 100, 200)
KNOWN, MOST_KNOWN = 0.6, 400
MODELS, MOST, BATCH = 8, 200, 10
CLOSE = 0.01  # a named model this close to the best one is good enough


def measure_pairs(outcomes: np.ndarray, budget: int, repetitions: int) -> np.ndarray:
    """Returns means over pairs of models, float64[6]: coverage of the difference of two new ones,
    its half-width ÷ that of two separate means, of the draws alone and corrected; coverage of the
    difference from a known model, its half-width ÷ that of the new one's mean, uncorrected and as
    it is given.

    Args:
      outcomes: uint8[m, n].
      budget: number of shared samples.
      repetitions: number of pairs.
    """
    random, (models, n), rows = np.random.default_rng(budget), outcomes.shape, []
    weights, nothing = np.full(n, 1 / n), np.zeros(budget)
    for _ in range(repetitions):
        order = random.permutation(models)
        first, second = outcomes[order[:2]].astype(np.float64)
        known = outcomes[order[2 : 2 + min(round(KNOWN * models), MOST_KNOWN)]]
        means, against = (known.sum(axis=0) + 1) / (len(known) + 2), known[0].astype(np.float64)
        said, said_more = make_covariates(means, weights), make_covariates(means, weights, against)
        drawn = random.permutation(n)[:budget]
        shared = compare_pair(first[drawn], second[drawn], n, covariates=said[drawn])
        halves = np.empty((2, 2))  # of the draws alone and corrected; of two models
        for half, model in zip(halves.T, (first, second), strict=True):
            own = random.permutation(n)[:budget]
            for row, covariates in enumerate((None, said[own])):
                # against a model that is wrong everywhere: its own mean
                half[row] = _half(compare_pair(model[own], nothing, n, covariates=covariates))
        plain = compare_pair(first[drawn], against[drawn], n)
        mean = np.full(budget, against.mean())
        given = compare_pair(first[drawn], mean, n, covariates=said_more[drawn])
        row = [_covers(shared, first, second), *(_half(shared) / np.hypot(*halves.T))]
        row += [
            _covers(given, first, against),
            *(_half(each) / halves[0, 0] for each in (plain, given)),
        ]
        rows.append(row)
    return np.mean(rows, axis=0)


def _half(difference: Difference) -> float:
    return (difference.high - difference.low) / 2


def _covers(difference: Difference, first: np.ndarray, second: np.ndarray) -> bool:
    truth = first.mean() - second.mean()
    return bool(difference.low - 1e-9 <= truth <= difference.high + 1e-9)


def find_best(
    outcomes: np.ndarray, random: np.random.Generator
) -> tuple[bool, bool, int, int, bool]:
    """Returns whether the named one of eight models is good enough, whether it was decided, and the
    answers that were used, beside those of equal shares; and whether the one named when no model
    may have more than `MOST` is good enough.
    """
    chosen = outcomes[random.choice(len(outcomes), MODELS, replace=False)].astype(np.float64)
    values = chosen[:, random.permutation(chosen.shape[1])]
    shared, alone = (spend(values, most) for most in (MODELS * MOST, MOST))
    equal = spend(values, MOST, equal=True)[2]
    return *shared, equal, alone[0]


def spend(values: np.ndarray, most: int, equal: bool = False) -> tuple[bool, bool, int]:
    """Returns whether the named model is good enough, whether it was decided, and the answers that
    were used, at most `MOST` a model.

    Args:
      values: float64[models, n], in the order in which the samples are asked.
      most: answers of one model.
      equal: whether models that are out are asked as well.
    """
    n, counts, means = values.shape[1], np.zeros(MODELS, np.int64), values.mean(axis=1)
    while True:
        found = decide(values[:, : counts.max() + 1], counts, n)
        asked = np.full(MODELS, True) if equal else ~found.settled
        if found.settled.all():
            break
        level = min(share_answers(MODELS * MOST, counts, ~asked), most, n)
        count = min(BATCH, level - counts[asked].max())
        if count <= 0:
            break
        counts[asked] += count
    left = ~found.better.any(axis=0)
    seen = np.array([row[:count].mean() for row, count in zip(values, counts, strict=True)])
    named = int(np.argmax(np.where(left, seen, -1)))
    good = bool(means.max() - means[named] <= CLOSE + 1e-12)
    return good, bool(found.settled.all()), int(counts.sum())


def main(matrices: Path = SHARED, repetitions: int = 200) -> None:
    """Prints both tables."""
    outcomes = {
        name: read_npz(matrices / f"{name}.npz", ("correct",))["correct"] for name in MATRICES
    }
    print(f"{describe()}; {repetitions} repetitions\n")
    engine.print_table(
        "matrix | K: | two new models: covered: | ÷ two means: | ÷ two corrected means:"
        " | a new and a known one: covered: | shared samples alone ÷ mean: | ÷ mean:",
        _list_pairs(outcomes, repetitions),
    )
    print()
    engine.print_table(
        "matrix | named is the best, or within .01: | decided: | answers ÷ equal shares:"
        f" | named by at most {MOST} of each:",
        _list_best(outcomes, repetitions),
    )


def _list_pairs(outcomes: dict[str, np.ndarray], count: int) -> Iterator[list[object]]:
    measured = []
    for name, budget in itertools.product(outcomes, BUDGETS):
        measured.append(measure_pairs(outcomes[name], budget, count))
        yield [name, budget, *_show_pairs(measured[-1], count)]
    yield ["all", "", *_show_pairs(np.mean(measured, axis=0), count * len(measured))]


def _show_pairs(means: np.ndarray, count: int) -> list[str]:
    return [_fraction(x, count) if i % 3 == 0 else f"{x:.2f}" for i, x in enumerate(means.tolist())]


def _list_best(outcomes: dict[str, np.ndarray], count: int) -> Iterator[list[str]]:
    together = []
    for name, values in outcomes.items():
        random = np.random.default_rng(0)
        together.append(np.array([find_best(values, random) for _ in range(count)]))
        yield _show_best(name, together[-1])
    yield _show_best("all", np.concatenate(together))


def _show_best(name: str, rows: np.ndarray) -> list[str]:
    good, decided, used, equal, alone = rows.T
    fraction = used.sum() / equal.sum()
    named, named_alone = (_fraction(float(each.mean()), len(rows)) for each in (good, alone))
    return [name, named, f"{decided.mean():.2f}", f"{fraction:.2f}", named_alone]


def _fraction(value: float, count: int) -> str:
    """Returns a fraction with Wilson's 95% interval."""
    (low,), (high,) = compute_wilson(np.array([value]), float(count))
    return f"{value:.3f} ({low:.3f}–{high:.3f})"


if __name__ == "__main__":
    engine.start(main)
