"""Whole networks: the train step of several trials in one program (vmap), or one at a time.

  python -m benchmarks.networks_at_once [--repeats=5] [--batch=16] [--precision=float32]
  python -m benchmarks.networks_at_once --trials=1,4,16 --processes=4,16

Prints the time of a trial's step for 1 to 8 trials in one program, in CPU seconds on a CPU and in
seconds on other devices; then the same for trials in separate processes that share the device and
its memory, always in seconds. Each trial has its own parameters, images, key, learning rate and
label smoothing.
"""

import argparse
import dataclasses
import functools
import os
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.train_step import (
    NETWORKS,
    SHORT,
    measure,
    parse_batches,
    parse_networks,
    step_arguments,
)
from nevis_stream.cost.counted import make_counted
from nevis_stream.experiments.scripts import choose_clock, describe, make_parser, parse_positive
from nevis_stream.launch import entry
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
        print(
            f"| {trials} | {seconds / trials * 1e3:.2f} | {spread:.2f} |"
            f" {trials / seconds:.1f} | {single * trials / seconds:.2f} |",
            flush=True,
        )


def train_trial(network: Network, batch: int, repeats: int) -> None:
    """Trains one trial: says "ready" after compilation, waits for a line, prints its seconds."""
    recipe = Recipe(network, steps=1000, validate_every=1000)
    carry = begin(jax.jit(initialise_program(network, 64))(np.arange(4, dtype=np.uint32)))
    arguments = step_arguments(recipe, batch)
    program = make_counted(recipe.step(10), donate_argnums=0)
    carry = jax.block_until_ready(program(carry, *arguments))
    print("ready", flush=True)
    sys.stdin.readline()
    begun = time.perf_counter()
    for _ in range(STEPS * repeats):
        carry = program(carry, *arguments)
    jax.block_until_ready(carry)
    print(time.perf_counter() - begun, flush=True)


def print_row(words: list[str], repeats: int, counts: list[int]) -> None:
    """Prints a row for each number of processes; they start their steps at the same time."""
    single = None
    for processes in counts:
        # without this each process would take three quarters of the GPU's memory
        share = {"XLA_PYTHON_CLIENT_MEM_FRACTION": f"{0.9 / processes:.3f}"}
        command = [sys.executable, "-m", "benchmarks.networks_at_once", "--one_trial", *words]
        started = [
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=os.environ | share,
            )
            for _ in range(processes)
        ]
        ready = [process.stdout.readline().strip() == "ready" for process in started]
        if all(ready):
            for process in started:
                process.stdin.write("\n")
                process.stdin.flush()
            each = [float(process.stdout.readline() or "nan") for process in started]
        for process in started:
            process.stdin.close()
            process.wait()
        if not all(ready):
            print(f"| {processes} | {ready.count(False)} failed | | | |", flush=True)
            continue
        seconds = max(each) / (STEPS * repeats)
        single = single or seconds / processes
        print(
            f"| {processes} | {seconds / processes * 1e3:.2f} | {max(each) / min(each):.2f} |"
            f" {processes / seconds:.1f} | {single * processes / seconds:.2f} |",
            flush=True,
        )


def main() -> None:
    """Prints a table for each network."""
    parser = make_parser(__doc__)
    parser.add_argument("--repeats", type=parse_positive, default=5)
    parser.add_argument("--batch", type=parse_positive, default=16)
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--networks", default="small,resnet18", help=f"of {', '.join(SHORT)}")
    parser.add_argument("--trials", default="1,2,4,8", help="numbers in one program")
    parser.add_argument("--processes", help="numbers in separate processes; default: none")
    parser.add_argument("--one_trial", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    entry.use_compilation_cache()
    chosen = {
        name: dataclasses.replace(NETWORKS[name], precision=options.precision)
        for name in parse_networks(parser, options.networks)
    }
    if options.one_trial:
        (network,) = chosen.values()
        train_trial(network, options.batch, options.repeats)
        return
    print(f"{describe()}; best of {options.repeats}; batch {options.batch}, {options.precision}.")
    head = "ms ({}) per trial and step | spread | trials × steps / {} | speed-up over the first |"
    for name, network in chosen.items():
        unit = choose_clock()[1]
        print(f"\n{name}:\n\n| trials in one program | {head.format(unit, unit)}")
        print("|---:|---:|---:|---:|---:|")
        at_once(network, options.batch, options.repeats, parse_batches(options.trials))
        if options.processes:
            print(
                f"\n| processes of one trial | {head.format('s', 's')}\n|---:|---:|---:|---:|---:|"
            )
            short = next(key for key, value in SHORT.items() if value == name)
            words = [f"--networks={short}", f"--batch={options.batch}"]
            words += [f"--precision={options.precision}", f"--repeats={options.repeats}"]
            print_row(words, options.repeats, parse_batches(options.processes))


if __name__ == "__main__":
    entry.guard(main)
