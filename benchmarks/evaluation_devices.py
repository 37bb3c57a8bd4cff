"""Dynamic evaluation on a CPU and on another device: seconds, and whether estimates are equal.

  python -m benchmarks.evaluation_devices [--device=cuda] [--matrices=mmlu_pro,…] [--methods=…]

Fits methods to 60% of a matrix's models and estimates the others' accuracies, in one process for
each platform. Times are wall-clock, the best of the repeats after one that compiles. The matrices
come from the folder that NEVIS_STREAM_SHARED names; `synthetic` needs none.
"""

import argparse
import json
import os
import subprocess
import sys
import time

from nevis_stream.experiments.scripts import make_parser, parse_positive
from nevis_stream.launch import entry

METHODS = ("sort_and_search", "irt_1pl", "irt_2pl", "irt_multidimensional", "recommended")
KNOWN, BUDGET = 0.6, 64


def read_matrix(name: str):
    """Returns uint8[models, samples]."""
    import numpy as np

    from nevis_stream.catalogue import find_shared_directory

    if name != "synthetic":
        return np.load(find_shared_directory() / "matrices" / f"{name}.npz")["correct"]
    random = np.random.default_rng(0)
    odds = random.normal(size=(60, 1)) - random.normal(size=(1, 2000))
    return (random.random(odds.shape) < 1 / (1 + np.exp(-odds))).astype(np.uint8)


def measure(matrices: list[str], names: list[str], repeats: int) -> None:
    """Prints one line of JSON for each matrix and method, after one that describes the machine."""
    import jax
    import numpy as np

    from nevis_stream.dynamic_evaluation import methods
    from nevis_stream.experiments.scripts import describe
    from nevis_stream.launch import entry
    from nevis_stream.queries.oracle import MatrixOracle

    entry.use_compilation_cache()
    print(json.dumps({"machine": describe()}), flush=True)
    for matrix_name in matrices:
        matrix = read_matrix(matrix_name)
        models = np.random.default_rng(0).permutation(len(matrix))
        cut = round(KNOWN * len(matrix))
        known, new = matrix[models[:cut]], matrix[models[cut:]]
        key, fit_key = jax.random.split(jax.random.key(0))
        for name in names:
            seconds = []
            for _ in range(repeats + 1):
                begun = time.perf_counter()
                evaluator = methods.get(name).fit(known, None, fit_key)
                estimates = evaluator.evaluate(MatrixOracle(new), len(new), BUDGET, key)
                seconds.append(time.perf_counter() - begun)
            row = {"matrix": matrix_name, "method": name, "first": seconds[0]}
            row["seconds"] = min(seconds[1:])
            print(json.dumps(row | {"accuracy": estimates.accuracy.tolist()}), flush=True)


def main() -> None:
    """Measures on both platforms, and prints the table."""
    parser = make_parser(__doc__)
    parser.add_argument("--device", default="cuda", help="value of JAX_PLATFORMS")
    parser.add_argument("--matrices", default="mmlu_pro,nlu_concat15")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--repeats", type=parse_positive, default=3)
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options.matrices.split(","), options.methods.split(","), options.repeats)
        return
    tables = []
    for platform in ("cpu", options.device):
        process = subprocess.run(
            [sys.executable, "-m", "benchmarks.evaluation_devices", "--measure", *sys.argv[1:]],
            env=os.environ | {"JAX_PLATFORMS": platform},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        if process.returncode:
            raise SystemExit(f"error: the measurement on {platform} failed; see above.")
        lines = [json.loads(line) for line in process.stdout.splitlines()]
        print(f"{platform}: {lines[0]['machine']}")
        tables.append(lines[1:])
    print(
        f"\nbest of {options.repeats}; budget {BUDGET}\n\n| matrix | method | CPU, s |"
        f" first time, s | {options.device}, s | first time, s |"
        " largest difference in an accuracy |\n|---|---|---:|---:|---:|---:|---:|"
    )
    for rows in zip(*tables, strict=True):
        times = [f"{row[part]:.3f}" for row in rows for part in ("seconds", "first")]
        apart = max(abs(a - b) for a, b in zip(*(row["accuracy"] for row in rows), strict=True))
        print(
            f"| {rows[0]['matrix']} | `{rows[0]['method']}` | {' | '.join(times)} | {apart:.2g} |"
        )


if __name__ == "__main__":
    entry.guard(main)
