"""Whole networks: the train step of several trials in one program (vmap), or one at a time.

  python -m benchmarks.networks_at_once [--repeats=5] [--batch=16] [--precision=float32]
  python -m benchmarks.networks_at_once --trials=1,4,16 --processes=4,16

Prints the time of a trial's step for 1 to 8 trials in one program, in CPU seconds on a CPU and in
seconds on other devices; then the same for trials in separate processes that share the device and
its memory, always in seconds. Each trial has its own parameters, images, key, learning rate and
label smoothing.
"""

import functools
import multiprocessing
import os
import time
from multiprocessing.connection import Connection
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.train_step import choose_networks, measure, parse_numbers, step_arguments
from nevis_stream.cost.counted import make_counted
from nevis_stream.experiments import engine
from nevis_stream.experiments.scripts import choose_clock, describe
from nevis_stream.learners.parts.model import Network, begin, initialise_program
from nevis_stream.learners.parts.recipe import Recipe

STEPS = 20


def at_once(network: Network, batch: int, repeats: int, counts: list[int]) -> None:
    """Prints a row for each number of trials."""
    recipe = Recipe(network, steps=1000, validate_every=1000)
    step = recipe.step(10)
    variables = begin(jax.jit(initialise_program(network, 64))(np.arange(4, dtype=np.uint32)))
    arguments = step_arguments(recipe, batch)
    mapped = (0, 0, 0, 0, 0, None, 0, 0, None)  # all but the step's number and the task's shape
    options = {"compiler_options": getattr(step, "compiler_options", {}), "donate_argnums": 0}
    single = None
    for trials in counts:
        copies = functools.partial(
            jax.tree.map,
            lambda a, n=trials: jnp.stack([jnp.asarray(a)] * n) if n > 1 else jnp.array(a),
        )
        carry = [copies(variables)]
        inputs = [
            argument if axis is None else copies(argument)
            for argument, axis in zip(arguments, mapped[1:], strict=True)
        ]
        program = jax.jit(jax.vmap(step, in_axes=mapped) if trials > 1 else step, **options)

        def work(steps, carry=carry, program=program, inputs=inputs):
            for _ in range(steps):
                carry[0] = program(carry[0], *inputs)
            jax.block_until_ready(carry[0])

        seconds, spread = measure(work, STEPS, repeats)
        single = single or seconds / trials
        print_speed(trials, seconds, spread, single)


def print_speed(trials: int, seconds: float, spread: float, single: float) -> None:
    """Prints a row: what a step of several trials took, where one takes `single` seconds."""
    rates = f"{seconds / trials * 1e3:.2f}", f"{spread:.2f}", f"{trials / seconds:.1f}"
    engine.print_row([trials, *rates, f"{single * trials / seconds:.2f}"])


def train_trial(way: Connection, network: Network, batch: int, repeats: int) -> None:
    """Trains one trial: says that it is ready after compilation, waits, and sends its seconds."""
    recipe = Recipe(network, steps=1000, validate_every=1000)
    carry = begin(jax.jit(initialise_program(network, 64))(np.arange(4, dtype=np.uint32)))
    arguments = step_arguments(recipe, batch)
    program = make_counted(recipe.step(10), donate_argnums=0)
    carry = jax.block_until_ready(program(carry, *arguments))
    way.send("ready")
    if not hear(way):
        return  # another one failed
    begun = time.perf_counter()
    for _ in range(STEPS * repeats):
        carry = program(carry, *arguments)
    jax.block_until_ready(carry)
    way.send(time.perf_counter() - begun)


def hear(way: Connection) -> Any:
    """Returns what the other process sends; None if it has ended."""
    try:
        return way.recv()
    except EOFError:
        return None


def at_once_in_processes(network: Network, batch: int, repeats: int, counts: list[int]) -> None:
    """Prints a row for each number of processes; they start their steps at the same time."""
    fresh, single = multiprocessing.get_context("spawn"), None
    for processes in counts:
        # without this each process would take three quarters of the GPU's memory
        os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{0.9 / processes:.3f}"
        started, ways = [], []
        for _ in range(processes):
            way, theirs = fresh.Pipe()
            started.append(
                fresh.Process(target=train_trial, args=(theirs, network, batch, repeats))
            )
            started[-1].start()
            theirs.close()  # so that the end of the process is seen
            ways.append(way)
        ready, each = [hear(way) for way in ways], []
        if all(ready):
            for way in ways:
                way.send("go")
            each = [hear(way) or np.nan for way in ways]
        for way, process in zip(ways, started, strict=True):
            way.close()
            process.join()
        if not all(ready):
            engine.print_row([processes, f"{ready.count(None)} failed", "", "", ""])
            continue
        seconds = max(each) / (STEPS * repeats)
        single = single or seconds / processes
        print_speed(processes, seconds, max(each) / min(each), single)


def main(
    repeats: int = 5,
    batch: int = 16,
    precision: Literal["float32", "bfloat16"] = "float32",
    networks: str = "small,resnet18",
    trials: str = "1,2,4,8",
    processes: str = "",
) -> None:
    """Prints a table for each network.

    Args:
      networks: of small, resnet18, resnet34, vit
      trials: numbers in one program
      processes: numbers in separate processes; default: none
    """
    print(f"{describe()}; best of {repeats}; batch {batch}, {precision}.")
    head = (
        ": | ms ({0}) per trial and step: | spread: | trials × steps / {0}:"
        " | speed-up over the first:"
    )
    for name, network in choose_networks(networks, precision).items():
        print(f"\n{name}:\n")
        engine.print_table(f"trials in one program{head.format(choose_clock()[1])}", ())
        at_once(network, batch, repeats, parse_numbers(trials))
        if processes:
            print()
            engine.print_table(f"processes of one trial{head.format('s')}", ())
            at_once_in_processes(network, batch, repeats, parse_numbers(processes))


if __name__ == "__main__":
    engine.start(main)
