"""Measures what it costs to add a model to a cache: the fit, and an addition after it.

python -m benchmarks.addition_cost --out=FOLDER [--methods=recommended,…] [--print_only]

Each cell runs in a process of its own: a cache is filled with simulated outcomes of an item
response model with two factors, a method is fitted for 100 samples, and four models are added one
after the other. The last three are additions in a running process to a cache with a stored fit; the
least of their times is reported. Memory is the peak of the process. The sizes vary the number of
models, then of samples. The record has a line for each cell, which is not computed again.
"""

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from nevis_stream.experiments import engine
from nevis_stream.experiments.scripts import describe
from nevis_stream.experiments.study_record import StudyRecord

BUDGET = 100
METHODS = ("stratified_mean", "linear_gaussian", "recommended", "quadrature")
SIZES = (
    *((20, 4000), (80, 4000), (320, 4000)),  # models
    *((40, 1000), (40, 4000), (40, 16000)),  # samples
    (28, 11963),  # as mmlu_pro
)
ADDITIONS = 4


def main(out: Path, methods: str = ",".join(METHODS), print_only: bool = False) -> None:
    """Runs what is missing, and prints times and memory of each cell.

    Args:
      out: folder of the record
      methods: names, separated by commas
      print_only: run nothing
    """
    record = StudyRecord(out / "study.jsonl", {"budget": BUDGET, "additions": ADDITIONS})
    cells = [
        {"method": method, "models": models, "samples": samples}
        for method in methods.split(",")
        for models, samples in SIZES
    ]
    for cell in [] if print_only else record.missing(cells):
        record.add(cell, engine.call_apart(measure, *cell.values()))
        print(*cell.values(), file=sys.stderr)
    print(f"{describe()}; n = 1\n")
    engine.print_table(
        "method | models: | samples: | fit, CPU-s: | addition, CPU-s: | wall: | memory, MB:",
        (
            "`{method}` | {models} | {samples:,} | {fit:.1f} | {cpu:.2f} | {wall:.2f} |"
            " {megabytes:.0f}".format(**cell, **record[cell]).split(" | ")
            for cell in cells
            if cell in record
        ),
    )


def measure(method: str, models: int, samples: int) -> dict:
    """Returns the costs of one cell: CPU-seconds of the fit, least CPU-seconds and seconds of an
    addition, and megabytes.
    """
    from nevis_stream.additions.models import add_models, fit_to_cache
    from nevis_stream.evaluation_cache import EvaluationCache
    from nevis_stream.queries.oracle import Query, Responses

    values = simulate_outcomes(models + ADDITIONS, samples)
    ids = [f"s{column}" for column in range(samples)]

    def answering(row: np.ndarray) -> Callable[[Query], Responses]:
        return lambda query: Responses(query, row[query.samples])

    with tempfile.TemporaryDirectory() as folder:
        cache = EvaluationCache(Path(folder) / "cache", create=True)
        cache.append_rows([f"m{row}" for row in range(models)], ids, values[:models])
        start = time.process_time()
        fit_to_cache(cache, BUDGET, method)
        fit, additions = time.process_time() - start, []
        for number, row in enumerate(values[models:]):
            start = time.perf_counter(), time.process_time()
            add_models(cache, {f"new{number}": answering(row)}, BUDGET, method)
            additions.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    wall, cpu = np.min(additions[1:], axis=0)
    return {
        "fit": fit,
        "cpu": float(cpu),
        "wall": float(wall),
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6,
    }


def simulate_outcomes(models: int, samples: int) -> np.ndarray:
    """Returns outcomes of an item response model with two factors, uint8[models, samples]."""
    random = np.random.default_rng([models, samples])
    ability, a = random.normal(size=(models, 2)), random.normal(size=(samples, 2)) + (1.2, 0)
    logits = random.normal(size=samples) + ability @ a.T
    return (random.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(np.uint8)


if __name__ == "__main__":
    engine.start(main, keep_programs=False)
