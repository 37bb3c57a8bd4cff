"""A process that fills a cache until it is killed: python -m tests.evaluation_cache.writer
DIRECTORY WRITER FIRST.

It prints each row's number once the cache has acknowledged it.
"""

import itertools
import sys

import numpy as np

from nevis_stream.evaluation_cache import EvaluationCache

SAMPLES = 4096


def row(writer: int, number: int) -> tuple[str, np.ndarray, np.ndarray, np.ndarray]:
    """Returns a model's id, its samples, its outcomes and its confidences, the same for
    every caller.
    """
    random = np.random.default_rng([writer, number])
    samples = random.choice(SAMPLES, [SAMPLES, 64, 1000][number % 3], replace=False)
    return (
        f"w{writer}-{number}",
        samples,
        random.integers(0, 2, len(samples)),
        random.random(len(samples)).astype(np.float16),
    )


def main(directory: str, writer: int, first: int) -> None:
    """Appends rows from number `first` on."""
    cache = EvaluationCache(directory, create=True)
    for number in itertools.count(first):
        model, samples, correct, confidence = row(writer, number)
        provenance = {"writer": writer, "number": number}
        cache.append(model, [f"s{k}" for k in samples], correct, confidence, provenance=provenance)
        print(number, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
