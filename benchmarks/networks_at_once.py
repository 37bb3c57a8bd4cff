"""Whole networks: the train step of several trials in one program (vmap), or one at a time.

  python -m benchmarks.networks_at_once [--repeats=5] [--batch=16] [--precision=float32]

Prints the time of a trial's step for 1 to 8 trials in one program, in CPU seconds on a CPU and in
seconds on other devices. Each trial has its own parameters, images, key, learning rate and label
smoothing.
"""

import argparse
import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.machine import clock, describe
from benchmarks.train_step import NETWORKS, measure, step_arguments
from learners.parts.fit import Recipe
from learners.parts.model import Network, begin, initialise_program

TRIALS, STEPS = (1, 2, 4, 8), 20


def at_once(network: Network, batch: int, repeats: int) -> None:
    """Prints a row for each number of trials."""
    recipe = Recipe(network, steps=1000, validate_every=1000)
    step = recipe.step(10)
    variables = begin(jax.jit(initialise_program(network, 64))(np.arange(4, dtype=np.uint32)))
    arguments = step_arguments(recipe, batch)
    mapped = (0, 0, 0, 0, 0, None, 0, 0, None)  # all but the step's number and the task's shape
    options = {"compiler_options": getattr(step, "compiler_options", {}), "donate_argnums": 0}
    single = None
    for trials in TRIALS:
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
        single = single or seconds
        print(
            f"| {trials} | {seconds / trials * 1e3:.2f} | {spread:.2f} |"
            f" {single * trials / seconds:.2f} |",
            flush=True,
        )


def main() -> None:
    """Prints a table for each network."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument(
        "--networks", type=int, default=2, help="number of networks (1 to 3), the smallest first"
    )
    options = parser.parse_args()
    print(f"{describe()}; best of {options.repeats}; batch {options.batch}, {options.precision}.")
    for name, network in list(NETWORKS.items())[: options.networks]:
        print(
            f"\n{name}:\n\n| trials in one program | ms ({clock()[1]}) per trial and step | spread"
            " | speed-up over single trials |"
        )
        print("|---:|---:|---:|---:|")
        at_once(
            dataclasses.replace(network, precision=options.precision),
            options.batch,
            options.repeats,
        )


if __name__ == "__main__":
    main()
