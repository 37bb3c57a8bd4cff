"""Linear heads on frozen features: all trials in one program (vmap and scan), or one at a time.

  python -m benchmarks.heads [--repeats=5]

Prints microseconds of wall-clock time per trial and step for 1 to 32 trials in one program, with
512 features and batches of 16.
"""

import time

import jax
import jax.numpy as jnp
import numpy as np

from nevis_stream.experiments.commands import make_parser, positive
from nevis_stream.experiments.machine import describe
from nevis_stream.launch import entry
from nevis_stream.learners.parts.linear_probe import heads_program
from nevis_stream.learners.parts.model import TaskShape

FEATURES, OUTPUTS, EXAMPLES, BATCH, STEPS = 512, 64, 4096, 16, 250


def main() -> None:
    """Prints the table."""
    parser = make_parser(__doc__)
    parser.add_argument("--repeats", type=positive, default=5)
    repeats = parser.parse_args().repeats
    random = np.random.RandomState(0)
    features = jnp.asarray(random.normal(size=(EXAMPLES, FEATURES)), jnp.float32)
    target = jnp.asarray(np.eye(OUTPUTS, dtype=np.uint8)[random.randint(10, size=EXAMPLES)])
    shape = TaskShape.of("single_label", 10)
    program = jax.jit(heads_program(STEPS, 0.9, 1e-4))
    print(f"{describe()}; best of {repeats}.\n")
    print(
        "| trials in one program | µs per trial and step | spread | speed-up over single trials"
        " |\n|---:|---:|---:|---:|"
    )
    single = 0.0
    for trials in (1, 2, 4, 8, 16, 32):
        heads = {
            "kernel": jnp.zeros((trials, FEATURES, OUTPUTS)),
            "bias": jnp.zeros((trials, OUTPUTS)),
        }
        momenta = jax.tree.map(jnp.zeros_like, heads)
        picked = random.randint(EXAMPLES, size=(trials, STEPS, BATCH)).astype(np.int32)
        rates, smoothing = np.full((trials, STEPS), 0.1, np.float32), np.zeros(trials, np.float32)
        times = []
        for _ in range(repeats + 1):
            start = time.perf_counter()
            jax.block_until_ready(
                program(heads, momenta, features, target, picked, rates, smoothing, shape)
            )
            times.append((time.perf_counter() - start) / STEPS / trials)
        best = min(times[1:])
        single = single or best
        print(
            f"| {trials} | {best * 1e6:.1f} | {max(times[1:]) / best:.2f} | {single / best:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    entry.guard(main)
