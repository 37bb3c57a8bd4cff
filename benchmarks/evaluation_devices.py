"""Dynamic evaluation on a CPU and on another device: seconds, and whether estimates are equal.

  python -m benchmarks.evaluation_devices [--device=cuda] [--matrices=mmlu_pro,…] [--methods=…]

Fits methods to 60% of a matrix's models and estimates the others' accuracies, in one process for
each platform. Times are wall-clock, the best of the repeats after one that compiles. The matrices
come from the folder that NEVIS_STREAM_SHARED names; `synthetic` needs none.
"""

import time

from nevis_stream.experiments import engine

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


def measure(matrices: list[str], names: list[str], repeats: int) -> list:
    """Returns what describes the machine, and a row for each matrix and method."""
    import jax
    import numpy as np

    from nevis_stream.dynamic_evaluation import methods
    from nevis_stream.experiments.scripts import describe
    from nevis_stream.launch import entry
    from nevis_stream.queries.oracle import MatrixOracle

    entry.use_compilation_cache()
    rows: list = [describe()]
    for matrix_name in matrices:
        matrix = read_matrix(matrix_name)
        models = np.random.default_rng(0).permutation(len(matrix))
        cut = round(KNOWN * len(matrix))
        known, new = matrix[models[:cut]], matrix[models[cut:]]
        key, fit_key = jax.random.split(jax.random.key(0))
        for name in names:
            found = []

            def estimate(name=name, known=known, new=new, key=key, fit_key=fit_key, found=found):
                evaluator = methods.get(name).fit(known, None, fit_key)
                found.append(evaluator.evaluate(MatrixOracle(new), len(new), BUDGET, key).accuracy)

            first, *others = engine.time_calls(estimate, repeats + 1, time.perf_counter)
            rows.append((matrix_name, name, min(others), first, found[-1]))
    return rows


def main(
    device: str = "cuda",
    matrices: str = "mmlu_pro,nlu_concat15",
    methods: str = ",".join(METHODS),
    repeats: int = 3,
) -> None:
    """Measures on both platforms, and prints the table.

    Args:
      device: value of JAX_PLATFORMS
    """
    tables = []
    for platform in ("cpu", device):
        chosen = matrices.split(","), methods.split(",")
        try:
            machine, *rows = engine.call_apart(measure, *chosen, repeats, JAX_PLATFORMS=platform)
        except Exception as error:
            raise SystemExit(f"error: the measurement on {platform} failed: {error!r}") from None
        print(f"{platform}: {machine}")
        tables.append(rows)
    print(f"\nbest of {repeats}; budget {BUDGET}\n")
    engine.print_table(
        f"matrix | method | CPU, s: | first time, s: | {device}, s: | first time, s:"
        " | largest difference in an accuracy:",
        (
            [cpu[0], f"`{cpu[1]}`", *(f"{each:.3f}" for each in (*cpu[2:4], *other[2:4]))]
            + [f"{abs(cpu[4] - other[4]).max():.2g}"]
            for cpu, other in zip(*tables, strict=True)
        ),
    )


if __name__ == "__main__":
    engine.start(main, keep_programs=False)
