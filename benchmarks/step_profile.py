"""Where the time of a train step goes: XLA's own profile, summed by kind of operation.

python -m benchmarks.step_profile [--network=small|resnet18|resnet34|vit] [--batch=16] [--steps=20]
    [--precision=float32]
"""

import dataclasses
import re
import tempfile
from collections import Counter
from pathlib import Path

import jax
import numpy as np

from benchmarks.train_step import NETWORKS, SHORT
from nevis_stream.cost.counted import CountedFunction
from nevis_stream.experiments.scripts import describe, make_parser, parse_positive
from nevis_stream.launch import entry
from nevis_stream.learners.parts.model import TaskShape, begin, initialise_program
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
    random, side = np.random.RandomState(0), recipe.stored_size
    rest = (
        random.randint(256, size=(batch, side, 3, side)).astype(np.uint8),
        np.full((batch, 2), side, np.int32),
        np.eye(64, dtype=np.uint8)[random.randint(10, size=batch)],
        jax.random.key(0),
        np.int32(0),
        np.float32(0.01),
        np.float32(0.1),
        TaskShape.of("single_label", 10),
    )
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


def main() -> None:
    """Prints the two tables."""
    parser = make_parser(__doc__)
    parser.add_argument("--network", choices=list(SHORT), default="small")
    parser.add_argument("--batch", type=parse_positive, default=16)
    parser.add_argument("--steps", type=parse_positive, default=20)
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    arguments = parser.parse_args()
    name = SHORT[arguments.network]
    network = dataclasses.replace(NETWORKS[name], precision=arguments.precision)
    kinds, operations = measure_profile(network, arguments.batch, arguments.steps)
    total = sum(kinds.values())
    print(
        f"{describe()}; {name}, batch {arguments.batch}, {arguments.precision}, {arguments.steps}"
        " steps.\n"
    )
    print(
        f"| kind of operation | share of {total / arguments.steps / 1e6:.2f} ms a step"
        " |\n|---|---:|"
    )
    for kind, spent in kinds.most_common():
        print(f"| {kind} | {spent / total:.0%} |")
    print(
        "\nLongest: "
        + ", ".join(f"{name} {spent / total:.0%}" for name, spent in operations.most_common(6))
    )


if __name__ == "__main__":
    entry.guard(main)
