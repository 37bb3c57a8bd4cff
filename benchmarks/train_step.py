"""Throughput of the training core: train step and input path, and a matrix product for comparison.

At batch 16, 64 and 256.

  python -m benchmarks.train_step [--repeats=5] [--all] [--precision=bfloat16]
  python -m benchmarks.train_step --networks=resnet34,vit --batches=16,512 --matmul=tensorfloat32
  python -m benchmarks.train_step --networks=resnet18 --together=8      # 8 steps in one program
  python -m benchmarks.train_step --count_only                          # exact FLOPs of a step

Prints a markdown table. Times are the best of the repeats (in CPU seconds of the process; on a GPU
in seconds), the spread is worst over best. Memory is what XLA reserves for a step: arguments,
results and temporary arrays.
"""

import dataclasses
import time
from collections.abc import Sequence
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from nevis_stream import errors
from nevis_stream.cost.counted import make_counted
from nevis_stream.datasets.images import ArrayImages
from nevis_stream.experiments import engine
from nevis_stream.experiments.scripts import choose_clock, describe, measure_peak
from nevis_stream.learners.config import PRESETS
from nevis_stream.learners.parts.augmentation import Augmentation, augment_batch
from nevis_stream.learners.parts.feed import Batches
from nevis_stream.learners.parts.model import (
    Network,
    TaskShape,
    begin,
    chain_steps,
    initialise_program,
)
from nevis_stream.learners.parts.recipe import Recipe

NETWORKS = {
    "ResNet (1,1,1) width 16, strided stem, 32×32 (budgets tiny, small)": Network(
        "resnet", (("stage_sizes", (1, 1, 1)), ("stem", "strided"), ("width", 16)), 32
    ),
    "ResNet-18, standard stem, 64×64 (budget cheap)": Network(
        "resnet18", (("stem", "standard"),), 64
    ),
    "ResNet-34, small stem, 64×64 (budget paper)": Network("resnet34", (("stem", "small"),), 64),
    "ViT-B, patches of 8, 64×64": Network("vit_b8", (), 64),
}
SHORT = dict(zip(("small", "resnet18", "resnet34", "vit"), NETWORKS, strict=True))


ROUND = 0.15  # seconds that the steps of a round would take at peak


def measure(work, steps: int, repeats: int) -> tuple[float, float]:
    """Returns best seconds per call over `repeats` rounds of `steps` calls, and worst over best.

    By the machine's clock.
    """
    work(1)
    rounds = engine.time_calls(lambda: work(steps), repeats, choose_clock()[0])
    return min(rounds) / steps, max(rounds) / min(rounds)


def step_arguments(recipe: Recipe, batch: int) -> tuple[Any, ...]:
    """Returns the arguments of a training step besides its carry, with random images.

    The task has ten classes.
    """
    side, random = recipe.stored_size, np.random.RandomState(0)
    stored = random.randint(256, size=(batch, side, 3, side)).astype(np.uint8)
    sizes = np.full((batch, 2), side, np.int32)
    target = np.eye(64, dtype=np.uint8)[random.randint(10, size=batch)]
    rest = (jax.random.key(0), np.int32(0), np.float32(0.01), np.float32(0.1))
    return (*jax.device_put((stored, sizes, target)), *rest, TaskShape.of("single_label", 10))


def stack_arguments(arguments: tuple[Any, ...], steps: int) -> tuple[Any, ...]:
    """Returns the arguments of `chain_steps`: those that change have a first axis of `steps`."""
    stored, sizes, target, key, index, rate, smoothing, shape = arguments
    stacked = [jnp.stack([jnp.asarray(x)] * steps) for x in (stored, sizes, target, index, rate)]
    return (*stacked[:3], key, *stacked[3:], smoothing, shape)


def measure_memory(function: Any, *arguments: Any) -> int:
    """Returns the bytes that XLA reserves for a call whose first argument is donated."""
    options = {"compiler_options": getattr(function, "compiler_options", {}), "donate_argnums": 0}
    sizes = jax.jit(function, **options).lower(*arguments).compile().memory_analysis()
    reserved = sizes.argument_size_in_bytes + sizes.output_size_in_bytes
    return reserved + sizes.temp_size_in_bytes - sizes.alias_size_in_bytes


def step_counts(name: str, network: Network, batches: Sequence[int]) -> None:
    """Prints the exact FLOPs of a step for each batch size, without running it."""
    recipe = Recipe(network, steps=1000, validate_every=1000)
    variables = jax.eval_shape(initialise_program(network, 64), np.arange(4, dtype=np.uint32))
    for batch in batches:
        program = make_counted(recipe.step(10), donate_argnums=0)
        flops = program.flops(begin(variables), *step_arguments(recipe, batch))
        engine.print_row([name, batch, flops])


def step_rows(
    name: str, network: Network, batches: Sequence[int], repeats: int, peak: float, together: int
) -> None:
    """Prints a row for each batch size for the train step of one network."""
    recipe = Recipe(network, steps=1000, validate_every=1000)
    words = np.arange(4, dtype=np.uint32)
    for batch in batches:
        function, arguments = recipe.step(10), step_arguments(recipe, batch)
        if together > 1:
            function, arguments = chain_steps(function), stack_arguments(arguments, together)
        program = make_counted(function, donate_argnums=0)
        carry = [begin(jax.jit(initialise_program(network, 64))(words))]
        flops = program.flops(carry[0], *arguments) / together
        reserved = measure_memory(function, carry[0], *arguments)

        def work(steps, carry=carry, program=program, arguments=arguments):
            for _ in range(steps):
                carry[0] = program(carry[0], *arguments)
            jax.block_until_ready(carry[0])

        calls = max(1, round(ROUND * peak / flops / together))
        seconds, spread = measure(work, calls, repeats)
        seconds /= together
        rate = flops / seconds
        rates = f"{1 / seconds:.2f}", f"{batch / seconds:.1f}", f"{rate / 1e9:.1f}"
        last = f"{rate / peak:.0%}", f"{reserved / 1e9:.2f}", f"{spread:.2f}"
        engine.print_row([name, batch, f"{flops:.4g}", *rates, *last])


def print_input_rows(repeats: int) -> None:
    """Prints rows for each batch size: gathering a batch on the host, and augmenting it."""
    images = ArrayImages(
        np.random.RandomState(0).randint(256, size=(2000, 64, 64, 3)).astype(np.uint8)
    )
    start = time.process_time()
    stored = images.banded(80)
    store_seconds = (time.process_time() - start) / len(images)
    sizes = images.sizes
    view = jax.jit(lambda key, images, sizes: augment_batch(key, images, sizes, 64, Augmentation()))
    for batch in (16, 64, 256):
        draw, key = Batches(len(stored), batch, 0), jax.random.key(0)

        def gather(steps, draw=draw):
            for step in range(steps):
                picked = draw(step)
                _ = stored[picked], sizes[picked]

        def augment(steps, draw=draw, key=key):
            for _ in range(steps):
                out = view(key, stored[: draw._size], sizes[: draw._size])
            out.block_until_ready()

        for name, work in (("gather on the host", gather), ("crop and flip to 64×64", augment)):
            seconds, spread = measure(work, max(2, 6400 // batch), repeats)
            rates = f"{seconds / batch * 1e6:.1f}", f"{batch / seconds:.0f}", f"{spread:.2f}"
            engine.print_row([name, batch, *rates])
    stored_at = f"{store_seconds * 1e6:.1f}", f"{1 / store_seconds:.0f}"
    engine.print_row(["store at 80×80, once per data set", "-", *stored_at, "n = 1"])


def choose_networks(words: str, precision: str = "float32") -> dict[str, Network]:
    """Returns by name those of NETWORKS whose short names a text has, joined by commas."""
    names = [errors.look_up(SHORT, "network", word) for word in words.split(",")]
    return {name: dataclasses.replace(NETWORKS[name], precision=precision) for name in names}


def parse_numbers(words: str) -> list[int]:
    """Returns the numbers of a list joined by commas; [] without one."""
    return [int(word) for word in words.split(",")] if words else []


def main(
    repeats: int = 5,
    all: bool = False,
    precision: Literal["float32", "bfloat16"] = "float32",
    matmul: Literal["default", "float32", "tensorfloat32"] = "default",
    networks: str = "small,resnet18,resnet34",
    batches: str = "",
    together: int = 1,
    steps_only: bool = False,
    count_only: bool = False,
) -> None:
    """Prints the tables.

    Args:
      all: batch 256 of the two large networks too (20 minutes on a CPU)
      matmul: how float32 matrices are multiplied; default: JAX decides
      networks: of small, resnet18, resnet34, vit
      batches: numbers joined by commas; default: see --all
      together: steps in one program
      steps_only: without the input path
      count_only: run nothing: exact FLOPs
    """
    chosen = choose_networks(networks, precision)
    if count_only:
        engine.print_table("train step | batch: | FLOPs:", ())
        for name, network in chosen.items():
            step_counts(name, network, parse_numbers(batches) or [16])
        return
    if matmul != "default":
        jax.config.update("jax_default_matmul_precision", matmul)
    _, unit = choose_clock()
    peak = measure_peak(dtype=precision)
    print(
        f"{describe()}; best of {repeats}; {precision}, of which a matrix product has"
        f" {peak / 1e9:.0f} GFLOP/{unit}; matmul {matmul}; {together}"
        f" step{'s' * (together > 1)} in one program.\n"
    )
    engine.print_table(
        f"train step | batch: | FLOPs: | steps/{unit}: | images/{unit}: | GFLOP/{unit}: | of peak:"
        " | memory, GB: | spread:",
        (),
    )
    for name, network in chosen.items():
        usual = [16, 64, 256] if all or "32×32" in name else [16, 64]
        step_rows(name, network, parse_numbers(batches) or usual, repeats, peak, together)
    assert set(PRESETS) == {"tiny", "small", "cheap", "paper"}  # the names in the table above
    if not steps_only:
        print()
        engine.print_table(
            f"input path, 64×64 RGB | batch: | µs per image: | images/{unit}: | spread:", ()
        )
        print_input_rows(repeats)


if __name__ == "__main__":
    engine.start(main)
