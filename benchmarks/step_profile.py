"""Where the time of a train step goes: XLA's own profile, summed by kind of operation.

python -m benchmarks.step_profile [--network=small|resnet18|resnet34|vit] [--batch=16] [--steps=20]
    [--precision=float32]
"""

import dataclasses
import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import Literal

import jax
import numpy as np

from benchmarks.train_step import NETWORKS, SHORT, step_arguments
from nevis_stream.cost.counted import CountedFunction
from nevis_stream.experiments import engine
from nevis_stream.experiments.scripts import describe
from nevis_stream.learners.parts.model import begin, initialise_program
from nevis_stream.learners.parts.recipe import Recipe

_KINDS = (
    ("convolutions and reductions in XLA's YNN library", re.compile(r"ynn")),
    ("convolutions elsewhere", re.compile(r"conv")),
    ("matrix product (crops, head, small maps)", re.compile(r"dot|gemm|matmul")),
    ("max-pooling", re.compile(r"reduce-window|select-and-scatter")),
    (
        "copies, padding, transposition",
        re.compile(r"copy|pad|transpose|concatenate|slice|bitcast|broadcast"),
    ),
    (
        "element-wise and reductions (normalisation, ReLU, update)",
        re.compile(r"fusion|reduce|add|multiply|select|wrapped"),
    ),
)


def classify_operation(name: str) -> str:
    """Returns the kind of an HLO operation by its name."""
    return next((kind for kind, pattern in _KINDS if pattern.search(name)), "other")


def measure_profile(network, batch: int, steps: int) -> tuple[Counter, Counter]:
    """Returns nanoseconds by kind and by operation, of all threads."""
    recipe = Recipe(network, steps=1000, validate_every=1000)
    step = CountedFunction(recipe.step(10), donate_argnums=0)
    rest = step_arguments(recipe, batch)
    carry = step(
        begin(jax.jit(initialise_program(network, 64))(np.arange(4, dtype=np.uint32))), *rest
    )
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            for _ in range(steps):
                carry = step(carry, *rest)
            jax.block_until_ready(carry)
        (file,) = Path(folder).rglob("*.xplane.pb")
        data = jax.profiler.ProfileData.from_file(str(file))
    kinds, operations = Counter(), Counter()
    for plane in data.planes:
        for line in plane.lines:
            for event in line.events:
                facts = dict(event.stats)
                if "hlo_op" in facts:
                    kinds[classify_operation(event.name)] += event.duration_ns
                    operations[event.name] += event.duration_ns
    return kinds, operations


def main(
    network: Literal["small", "resnet18", "resnet34", "vit"] = "small",
    batch: int = 16,
    steps: int = 20,
    precision: Literal["float32", "bfloat16"] = "float32",
) -> None:
    """Prints the two tables."""
    name = SHORT[network]
    chosen = dataclasses.replace(NETWORKS[name], precision=precision)
    kinds, operations = measure_profile(chosen, batch, steps)
    total = sum(kinds.values())
    print(f"{describe()}; {name}, batch {batch}, {precision}, {steps} steps.\n")
    engine.print_table(
        f"kind of operation | share of {total / steps / 1e6:.2f} ms a step:",
        ([kind, f"{spent / total:.0%}"] for kind, spent in kinds.most_common()),
    )
    print(
        "\nLongest: "
        + ", ".join(f"{name} {spent / total:.0%}" for name, spent in operations.most_common(6))
    )


if __name__ == "__main__":
    engine.start(main, keep_programs=False)
