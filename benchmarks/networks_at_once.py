"""Whole networks: the train step of several trials in one program (vmap) or one after another.

  python -m benchmarks.networks_at_once [--repeats=5] [--batch=16] [--precision=float32]

Prints the time of a trial's step for 1 to 8 trials in one program, in CPU seconds on a CPU and in
seconds elsewhere. Each trial has parameters, pictures, key, learning rate and label smoothing of
its own.
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
    alone = None
    for trials in TRIALS:
        copies = functools.partial(
            jax.tree.map,
            lambda a, n=trials: jnp.stack([jnp.asarray(a)] * n) if n > 1 else jnp.array(a),
        )
        carry = [copies(variables)]
        given = [
            one if axis is None else copies(one)
            for one, axis in zip(arguments, mapped[1:], strict=True)
        ]
        program = jax.jit(jax.vmap(step, in_axes=mapped) if trials > 1 else step, **options)

        def work(steps, carry=carry, program=program, given=given):
            for _ in range(steps):
                carry[0] = program(carry[0], *given)
            jax.block_until_ready(carry[0])

        seconds, spread = measure(work, STEPS, repeats)
        alone = alone or seconds
        print(
            f"| {trials} | {seconds / trials * 1e3:.2f} | {spread:.2f} |"
            f" {alone * trials / seconds:.2f} |",
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
        "--networks", type=int, default=2, help="how many of the three networks, the smallest first"
    )
    wanted = parser.parse_args()
    print(f"{describe()}; best of {wanted.repeats}; batch {wanted.batch}, {wanted.precision}.")
    for name, network in list(NETWORKS.items())[: wanted.networks]:
        print(
            f"\n{name}:\n\n| trials at once | ms ({clock()[1]}) a trial and step | spread | times"
            " faster than alone |"
        )
        print("|---:|---:|---:|---:|")
        at_once(
            dataclasses.replace(network, precision=wanted.precision), wanted.batch, wanted.repeats
        )


if __name__ == "__main__":
    main()
