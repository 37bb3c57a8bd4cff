"""Rollouts of dynamic benchmarks on images: does the risk stall, what do the errors that the first
four classifiers share say early (z_4), and is a hierarchy worth its labels?

    python -m experiments.rollouts.on_images --out=runs/rollouts                    # all that is missing; hours
    python -m experiments.rollouts.on_images --out=runs/rollouts --data=cifar10_12k --path=20 --hierarchical=20
    python -m experiments.rollouts.on_images --vmapped                              # one program for several rollouts?

Finished classifiers are kept, so the command can be stopped and started, and numbers be raised. It
prints a table of each data set and writes its page, OUT/DATA/report.html.
"""  # noqa: E501

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from nevis_stream.cost.counted import choose_convolution_options
from nevis_stream.experiments import engine, scripts
from nevis_stream.experiments.rollouts import page, training
from nevis_stream.experiments.rollouts.study import Rollouts, RolloutSettings, run_rollouts
from nevis_stream.experiments.rollouts.training import BATCH, load_pool
from nevis_stream.terminal import TerminalProgress
from nevis_stream.training.descent import begin, make_optimiser

WANTED = {"cifar10_12k": (100, 30), "fashion_mnist": (30, 30)}  # rollouts of path and hierarchy
DESIGNS = {"path": (1, 25), "hierarchical": (2, 5)}


def run_designs(data: str, counts: Sequence[int], out: Path, images: int) -> list[Rollouts]:
    """Runs what is missing of a data set; returns both designs."""
    pool, fingerprint = load_pool(data, images)
    finished = []
    for (name, (depth, width)), count in zip(DESIGNS.items(), counts, strict=True):
        settings = RolloutSettings(data, len(pool), fingerprint, depth, width, 0.73, 0)
        with TerminalProgress(f"{data}, {name}") as progress:
            finished.append(run_rollouts(settings, pool, out / name, count, progress=progress))
    return finished


def print_tables(both: Sequence[Rollouts]) -> None:
    """Prints the tables of a data set, which are those of its page."""
    for chapter in page.make_chapters(both):
        if chapter.table is not None:
            print(f"\n{both[0].settings.data}: {chapter.title}\n")
            rows = ([text for text, _ in row] for row in chapter.rows)
            engine.print_table(" | ".join(chapter.columns), rows)
    print()
    for each in both:
        print(f"- {both[0].settings.data}, {page.state_stall(each)}")


def run_vmapped() -> None:
    """Prints the time of a training step alone, and of one in a vmapped program of several."""
    step, generator = training.make_training_step(), np.random.default_rng(0)
    images = generator.integers(0, 255, (BATCH, 32, 32, 3)).astype(np.uint8)
    labels = generator.integers(0, 10, BATCH).astype(np.int32)
    state = begin(make_optimiser(**training.OPTIMISER), training.initialise(generator, 10))
    key = jax.random.key(0)
    now, unit = scripts.choose_clock()
    options = choose_convolution_options()

    def best(program, *arguments) -> float:
        jax.block_until_ready(program(*arguments))
        times = []
        for _ in range(10):
            begun = now()
            jax.block_until_ready(program(*arguments))
            times.append(now() - begun)
        return min(times)

    alone = best(jax.jit(step, compiler_options=options), state, (images, labels, key))
    print(f"{scripts.describe()}\none rollout: {1000 * alone:.1f} m{unit} a step (best of 10)")
    for count in (2, 4, 8):

        def stack(tree, count=count):
            return jax.tree.map(lambda leaf: jnp.stack([leaf] * count), tree)

        each = (
            best(
                jax.jit(jax.vmap(step), compiler_options=options),
                stack(state),
                (stack(images), stack(labels), jax.random.split(key, count)),
            )
            / count
        )
        print(f"{count} in one vmapped program: {1000 * each:.1f} m{unit} a step and rollout")


def main(
    out: Path = Path("runs/rollouts"),
    data: Literal["cifar10_12k", "fashion_mnist"] | None = None,
    images: int = 2500,
    path: int | None = None,
    hierarchical: int | None = None,
    vmapped: bool = False,
) -> None:
    """Runs what is missing; see the module."""
    if vmapped:
        run_vmapped()
        return
    print(scripts.describe())
    for name in [data] if data else WANTED:
        counts = path or WANTED[name][0], hierarchical or WANTED[name][1]
        begun, folder = time.process_time(), out / f"{name}-{images}"
        both = run_designs(name, counts, folder, images)
        print(f"{time.process_time() - begun:.0f} CPU seconds of this process")
        print_tables(both)
        print(page.write(folder, both))


if __name__ == "__main__":
    engine.start(main)
