"""Measures the evaluation cache at scale: sorting, searching, adding, writing, and killed writers.

  python -m benchmarks.cache_scale --out=runs/cache_scale [--models=1000,10000] [--only=scale|kills]

Caches are made below --out, 1.3 GB for 10,000 models × 1,000,000 samples, and deleted at the end.
Anonymous memory is that of a process that does nothing else, including its modules; "before" is the
memory of these and of the opened cache.
"""

import shutil
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from nevis_stream.experiments import engine

SAMPLES = 1_000_000
PAPER = 31_250 * 1.7e6  # cells
# FLOPs per second of a float32 matrix product on two cores, to which the bars refer
REFERENCE_PEAK = 365e9
REPEATS = 5


def main(
    out: Path,
    models: Sequence[int] = (1000, 10000),
    only: Literal["scale", "kills"] | None = None,
) -> None:
    """Runs the chosen parts and prints the tables."""
    if only != "kills":
        for number in models:
            scale(out / f"{number}", number)
    if only != "scale":
        measure_kills(out)


def scale(directory: Path, models: int) -> None:
    """Prints the costs of one synthetic cache."""
    from nevis_stream.experiments.scripts import describe, measure_peak

    spent, ids = fill(directory, models)
    measured = engine.call_apart(measure, directory)
    peak = 2 * measure_peak()
    share = peak / REFERENCE_PEAK
    print(f"{describe()}\n")
    print(
        f"{models:,} models × {SAMPLES:,} samples, {measured['bytes'] / 1e6:.0f} MB of cells. CPU"
        " seconds, best of"
    )
    print(
        f"{REPEATS}; matrix product {peak / 1e9:.0f} GFLOP/s of two cores, scaled seconds are those"
        f" times {share:.2f}.\n"
    )
    engine.print_table(
        "work | CPU s: | scaled: | anonymous MB at most (before):",
        (
            [name, f"{seconds:.4f}", f"{seconds * share:.4f}", f"{most:.0f} ({before:.0f})"]
            for name, (seconds, most, before) in measured["lines"].items()
        ),
    )
    sums = measured["lines"]["column sums, every row read"][0]
    order = measured["lines"]["column sums and order"][0] - sums
    total = (sums * PAPER / (models * SAMPLES) + order * 1.7) * share
    rate = models * SAMPLES / spent / 1e6
    print(
        f"\nFilled at {rate:.0f} million cells per CPU second ({spent:.1f} s, n = 1), ids of"
        " samples"
        f" in {ids:.1f} s."
    )
    print(
        f"Extrapolated to 31,250 × 1.7 million, {PAPER / 8e9:.1f} GB: {total:.1f} s scaled to"
        " sort.\n",
        flush=True,
    )
    shutil.rmtree(directory)


def fill(directory: Path, models: int) -> tuple[float, float]:
    """Makes a cache whose samples differ in difficulty; returns the CPU seconds of appending rows,
    and of adding samples.
    """
    from nevis_stream.evaluation_cache import EvaluationCache

    shutil.rmtree(directory, ignore_errors=True)
    cache, random = (
        EvaluationCache(directory, create=True, about={"synthetic": True}),
        np.random.default_rng(0),
    )
    start = time.process_time()
    cache.append("m0", [f"synthetic/test/{k}" for k in range(SAMPLES)], np.ones(SAMPLES, np.uint8))
    ids, spent = time.process_time() - start, 0.0
    easy, columns = (
        np.clip(random.normal(128, 60, SAMPLES), 1, 255).astype(np.uint8),
        np.arange(SAMPLES),
    )
    for low in range(1, models, 50):
        names = [f"m{i}" for i in range(low, min(low + 50, models))]
        rows = random.integers(0, 256, (len(names), SAMPLES), np.uint8) < easy
        start = time.process_time()
        cache.append_rows(names, columns, rows)
        spent += time.process_time() - start
    return spent, ids


def measure(directory: Path) -> dict:
    """Returns the CPU seconds and the anonymous MB of each operation on a cache."""
    from nevis_stream.dynamic_evaluation.sorting import find_thresholds, sort
    from nevis_stream.evaluation_cache import EvaluationCache
    from nevis_stream.queries.oracle import Query, Responses
    from nevis_stream.queries.samples import place_centres

    cache, lines = EvaluationCache(directory), {}
    models, random = cache.shape[0], np.random.default_rng(0)
    words = cache.cells.path.stat().st_size // 8

    def line(name, work, repeats=REPEATS):
        before = read_anonymous_memory()
        most = at_most(work)
        lines[name] = min(engine.time_calls(work, repeats)), most, before

    line(
        "read the warm pages (sum of words)",
        lambda: np.memmap(cache.cells.path, np.uint64, "r", shape=(words,)).sum(),
    )
    line("column sums, every row read", cache.column_sums)
    line("column sums and order", lambda: sort(cache).order)
    rank = sort(cache)
    rank.order  # noqa: B018
    rank.place  # noqa: B018
    new = iter(range(1000))

    def append(samples, known):
        cache.append(f"new{next(new)}", samples, random.integers(0, 2, known))

    columns = np.sort(random.choice(SAMPLES, 2048, replace=False))
    ids = [f"synthetic/test/{k}" for k in columns]
    line("append a model, 2,048 cells by id", lambda: append(ids, 2048))

    def evaluate():
        places = place_centres(rank.n, 2048)
        outcomes = random.integers(0, 2, 2048)
        cache.append(f"new{next(new)}", rank.order[places], outcomes)
        _ = (
            rank.place
            < find_thresholds(rank, places[None], outcomes[None].astype(np.uint8))[:, None]
        )

    line("plan, append and predict a model, n' = 2,048", evaluate)
    # imports JAX, which the lines above do not need
    from nevis_stream.additions.models import add_models

    def dice(cells: Query) -> Responses:
        return Responses(cells, random.integers(0, 2, cells.samples.shape).astype(np.uint8))

    def add():
        add_models(cache, {f"new{next(new)}": dice}, 2048, "sort_and_search")

    add()  # so that late imports are not counted
    line("add-model by sort_and_search, n' = 2,048: all steps, from the closed cache", add, 2)
    line("append a model, all cells by column", lambda: append(np.arange(SAMPLES), SAMPLES))

    if models <= 1000:
        line("2,048 columns of all models", lambda: cache.matrix(samples=columns), 1)
        line("verify", lambda: check(cache), 1)
    return {"lines": lines, "bytes": 8 * words}


def check(cache) -> None:
    """Fails on damage."""
    assert not cache.verify()


def read_anonymous_memory() -> float:
    """Returns MB of anonymous memory of this process now."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["RssAnon"].split()[0]) / 1000


def at_most(work) -> float:
    """Returns the peak of anonymous memory in MB during the work, read every half millisecond."""
    most, done = [read_anonymous_memory()], threading.Event()

    def look():
        while not done.wait(0.0005):
            most[0] = max(most[0], read_anonymous_memory())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        result = work()  # noqa: F841  its result counts as well
    finally:
        done.set()
        thread.join()
    return max(most[0], read_anonymous_memory())


def measure_kills(out: Path) -> None:
    """Prints the state of a cache after ten writers of 2,000 rows were killed."""
    from tests.evaluation_cache.test_kill import check, fill

    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out) as directory:
        start, kill_count = time.monotonic(), 100
        cache, acknowledged = fill(
            Path(directory), writers=10, rows=2000, kills=kill_count, pause=0.4
        )
        seconds = time.monotonic() - start
        check(cache, acknowledged)
        rows, acknowledged_rows = cache.shape[0], sum(map(len, acknowledged))
        print(
            f"Ten writers, {kill_count} of them killed with -9 one after the other and all ten at"
            f" the end, {seconds:.0f} s: {acknowledged_rows} rows"
        )
        print(
            f"acknowledged, {rows} in the cache, each as it was written; `verify` finds no damage."
        )


if __name__ == "__main__":
    engine.start(main, keep_programs=False)
