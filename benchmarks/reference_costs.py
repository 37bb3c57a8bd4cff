"""Our costs and those of the public reference implementation, in CPU seconds.

At 64×64 and batch 16.

  python -m benchmarks.reference_costs [--repeats=5]

The reference's figures were measured on a machine like this with the same networks; ours are scaled
by this run's matrix-product peak over 365 GFLOP/s of two cores. Prints a markdown table.
"""

import tempfile
import time

import jax
import numpy as np

from benchmarks.train_step import NETWORKS, measure
from nevis_stream.cost import counted
from nevis_stream.cost.counted import count_flops
from nevis_stream.datasets.images import ArrayImages
from nevis_stream.experiments.commands import make_parser, positive
from nevis_stream.experiments.machine import describe, matrix_product_peak
from nevis_stream.launch import entry
from nevis_stream.learner import Context
from nevis_stream.learners.parts.augmentation import Augmentation, training_view
from nevis_stream.learners.parts.baseline import Baseline
from nevis_stream.learners.parts.fit import Recipe
from nevis_stream.learners.parts.initialisation import FromRandom
from nevis_stream.learners.parts.model import (
    EVALUATION_BATCH,
    Network,
    TaskShape,
    begin,
    initialise_program,
    probabilities_program,
)
from nevis_stream.learners.parts.relatedness import Neighbours
from nevis_stream.learners.parts.search import RandomSearch
from nevis_stream.runner import run
from nevis_stream.streams.stream import Stream
from nevis_stream.streams.task import LabelledImages, TaskView

REFERENCE_PEAK = 365e9 / 2  # FLOPs per second of one core


def step_seconds(network: Network, repeats: int) -> tuple[float, float, float]:
    """Returns best seconds per step, worst over best, and FLOPs."""
    recipe, random = Recipe(network, steps=1000, validate_every=1000), np.random.RandomState(0)
    side, program = recipe.stored_size, count_flops(recipe.step(10), donate_argnums=0)
    rest = (
        random.randint(256, size=(16, side, 3, side)).astype(np.uint8),
        np.full((16, 2), side, np.int32),
        np.eye(64, dtype=np.uint8)[random.randint(10, size=16)],
        jax.random.key(0),
        np.int32(0),
        np.float32(0.01),
        np.float32(0.1),
        TaskShape.of("single_label", 10),
    )
    carry = [begin(jax.jit(initialise_program(network, 64))(np.arange(4, dtype=np.uint32)))]
    flops = program.flops(carry[0], *rest)

    def work(steps):
        for _ in range(steps):
            carry[0] = program(carry[0], *rest)
        jax.block_until_ready(carry[0])

    return *measure(work, 4 if flops < 1e11 else 1, repeats), flops


def input_seconds(repeats: int) -> tuple[float, float]:
    """Returns best CPU seconds per image for gathering and augmenting, and worst over best.

    The batch is 16 at 64×64.
    """
    images = ArrayImages(
        np.random.RandomState(0).randint(256, size=(2000, 64, 64, 3)).astype(np.uint8)
    )
    stored, sizes = images.banded(80), images.sizes
    view = jax.jit(lambda key, images, sizes: training_view(key, images, sizes, 64, Augmentation()))
    key, random = jax.random.key(0), np.random.RandomState(0)

    def work(steps):
        for _ in range(steps):
            picked = random.randint(2000, size=16)
            out = view(key, stored[picked], sizes[picked])
        out.block_until_ready()

    seconds, spread = measure(work, 200, repeats)
    return seconds / 16, spread


def neighbours_seconds(network: Network, repeats: int) -> tuple[float, float]:
    """Returns best CPU seconds of relatedness per image and candidate, and of one forward pass."""
    random, variables = (
        np.random.RandomState(0),
        jax.jit(initialise_program(network, 64))(np.arange(4, dtype=np.uint32)),
    )
    side, n = network.resolution, 4 * EVALUATION_BATCH
    images = ArrayImages(random.randint(256, size=(n, side, side, 3)).astype(np.uint8))
    labels = random.randint(10, size=n)
    halves = [
        LabelledImages(images.take(rows), labels[rows])
        for rows in np.split(np.arange(n), [3 * EVALUATION_BATCH])
    ]
    task = TaskView("a", 2000, "single_label", "shape", 10, *halves)
    forward, shape = (
        count_flops(probabilities_program(network, 64)),
        TaskShape.of("single_label", 10),
    )
    batch = images.center_cropped(side)[:EVALUATION_BATCH]

    def score(times):
        for _ in range(times):
            Neighbours().score(Context(path=("x",), phase="select"), task, network, variables)

    def passes(times):
        for _ in range(4 * times):
            np.asarray(forward(variables, batch, shape))

    return measure(score, 1, repeats)[0] / n, measure(passes, 1, repeats)[0] / n


def programs_compiled() -> tuple[int, int]:
    """Returns how many programs a run compiled, and in its last nine tasks.

    The run has ten tasks with 16 trials each.
    """
    from tests import toy

    network = Network(
        "resnet", (("stage_sizes", (1,)), ("stem", "strided"), ("width", 4)), resolution=8
    )
    space = {"learning_rate": (0.02, 0.05), "label_smoothing": (0.0, 0.1)}
    learner = Baseline(
        FromRandom(), RandomSearch(16, space), Recipe(network, steps=4, validate_every=2)
    )
    datasets = [
        toy.blobs(f"task_{number}", classes=2 + number, n=60, seed=number) for number in range(10)
    ]
    stream = Stream.from_datasets("ten", datasets, list(range(2000, 2010)), meta_test=2)
    before, after_first = counted.so_far()[0], []

    class Told:
        def event(self, index, *_):
            if index == 2:
                after_first.append(counted.so_far()[0])

        def __getattr__(self, _):
            return lambda *_: None

    with tempfile.TemporaryDirectory() as folder:
        run(learner, stream, folder, progress=Told())
    return counted.so_far()[0] - before, counted.so_far()[0] - after_first[0]


def main() -> None:
    """Prints the table."""
    parser = make_parser(__doc__)
    parser.add_argument("--repeats", type=positive, default=5)
    repeats = parser.parse_args().repeats
    peak, begun = matrix_product_peak(), time.time()
    scale = peak / REFERENCE_PEAK
    names = list(NETWORKS)
    print(
        f"{describe()}; best of {repeats}; matrix product {peak / 1e9:.0f} GFLOP/CPU-s, {scale:.2f}"
        " of the reference's machine; scaled: what it would be at that machine's peak.\n"
    )
    print(
        "| cost | reference | here | spread | scaled | times cheaper | of peak"
        " |\n|---|---:|---:|---:|---:|---:|---:|"
    )
    for name, reference in ((names[1], 1.41), (names[2], 4.18)):
        seconds, spread, flops = step_seconds(NETWORKS[name], repeats)
        print(
            f"| step of {name}, CPU-s | {reference} | {seconds:.3f} | {spread:.2f} |"
            f" {seconds * scale:.3f} | {reference / (seconds * scale):.1f} |"
            f" {flops / seconds / peak:.0%} |",
            flush=True,
        )
    seconds, spread = input_seconds(repeats)
    scaled = seconds * scale * 1e6
    row = (
        f"| input, µs an image | 126–161 | {seconds * 1e6:.1f} | {spread:.2f} | {scaled:.1f} |"
        f" {126 / scaled:.1f} | - |"
    )
    print(row, flush=True)
    score, forward = neighbours_seconds(NETWORKS[names[2]], repeats)
    print(
        f"| relatedness by ResNet-34, ms an image and candidate | 42 | {score * 1e3:.2f} | - |"
        f" {score * scale * 1e3:.2f} | {42 / (score * scale * 1e3):.1f} | {forward * 1e3:.2f} ms a"
        f" forward pass: ratio {score / forward:.2f} |",
        flush=True,
    )
    programs, later = programs_compiled()
    print(
        "| programs compiled by 10 tasks × 16 trials | every trial, FLOP estimate and prediction"
        f" (8.7–16.8 s each) | {programs}, {later} of them after the first task | - | - | - | - |"
    )
    print(f"\nIt took {time.time() - begun:.0f} s.")


if __name__ == "__main__":
    entry.guard(main)
