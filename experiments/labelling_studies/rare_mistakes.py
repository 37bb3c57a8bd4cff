"""Coverage of the intervals where few losses decide, on simulated pools.

    python -m experiments.labelling_studies.rare_mistakes

Pools of 2,500 samples of ten classes; 100 repetitions of each case, with the default rule, 20
labels at a time. An accurate model is sure of nearly all its answers, also of nearly half of its
mistakes. A rarely sure one is very sure of 5% of its answers (a mistake costs 23), which are wrong
as often as the others, of which it is not sure. The surrogate is the model itself, or surer: its
probabilities are the squares of the model's.
"""

import itertools
from collections.abc import Iterator

import numpy as np

from nevis_stream.active_testing.estimators import ESTIMATORS
from nevis_stream.active_testing.pool import Pool
from nevis_stream.active_testing.testing import KnownLabels, fix_surrogate, run_active_test
from nevis_stream.experiments import engine
from nevis_stream.experiments.scripts import describe
from nevis_stream.seeds import generator

SIZE, CLASSES, REPETITIONS, SHOWN = 2500, 10, 100, (40, 60, 100, 200)
SHOWN_ESTIMATORS = ("lure", "difference", "tuned_difference")
LOSSES = ("zero_one", "cross_entropy")
EXPONENTS = {"as sure": 1, "surer": 2}


def _accurate(random: np.random.Generator, rate: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns probabilities float64[n, c] and labels int64[n] of a model with a rate of errors."""
    labels = random.integers(CLASSES, size=SIZE)
    wrong = random.random(SIZE) < rate
    sure = np.clip(random.beta(8, 1, SIZE), 0.3, 0.995)
    unsure = wrong & (random.random(SIZE) < 0.6)
    sure = np.where(unsure, random.uniform(0.35, 0.9, SIZE), sure)
    return _probabilities((labels + wrong) % CLASSES, sure), labels


def _rarely_sure(random: np.random.Generator, rate: float) -> tuple[np.ndarray, np.ndarray]:
    """Returns the same of a model that is very sure of 5% of its answers."""
    labels = random.integers(CLASSES, size=SIZE)
    wrong = random.random(SIZE) < rate
    sure = np.where(random.random(SIZE) < 0.05, 1 - 1e-9, 0.6)
    return _probabilities((labels + wrong) % CLASSES, sure), labels


def _probabilities(answers: np.ndarray, sure: np.ndarray) -> np.ndarray:
    predictions = np.tile(((1 - sure) / (CLASSES - 1))[:, None], (1, CLASSES))
    predictions[np.arange(SIZE), answers] = sure
    return predictions


MODELS = {
    "accurate": (_accurate, (0.01, 0.02, 0.05, 0.1)),
    "rarely sure": (_rarely_sure, (0.1, 0.3, 0.6)),
}


def _measure(model, loss: str, rate: float, exponent: int) -> np.ndarray:
    """Returns float64[r, SHOWN, estimators, 2]: whether intervals cover, and their widths."""
    results = []
    for number in range(REPETITIONS):
        random = generator(number, "rare mistakes")
        predictions, labels = model(random, rate)
        sharpened = predictions**exponent
        pool = Pool.of(predictions, loss)
        surrogate = fix_surrogate((sharpened / sharpened.sum(axis=1, keepdims=True))[None])
        risk, rows = pool.risk(labels), []
        for draws in run_active_test(
            pool, surrogate, KnownLabels(labels), max(SHOWN), random, batch=20
        ):
            if draws.asked in SHOWN:
                each = [ESTIMATORS[name](draws) for name in SHOWN_ESTIMATORS]
                rows.append([(one.low <= risk <= one.high, one.high - one.low) for one in each])
        results.append(rows)
    return np.array(results, np.float64)


def _list_rows() -> Iterator[list[str]]:
    for kind, (model, rates) in MODELS.items():
        for loss, rate, name in itertools.product(LOSSES, rates, EXPONENTS):
            means = _measure(model, loss, rate, EXPONENTS[name]).mean(axis=0)
            for estimator, column in zip(SHOWN_ESTIMATORS, means.swapaxes(0, 1), strict=True):
                cells = [f"{covered:.0%}, {width:.2f}" for covered, width in column]
                yield [kind, loss, f"{rate:.0%}", name, estimator, *cells]


def main() -> None:
    """Prints the table, in Markdown."""
    print(f"{describe()}\n")
    heads = " | ".join(f"{asked} labels:" for asked in SHOWN)
    engine.print_table(f"model | loss | errors: | surrogate | estimator | {heads}", _list_rows())


if __name__ == "__main__":
    engine.start(main, keep_programs=False)
