"""How the benchmarks describe the machine, and its matrix-product peak, of the same run."""

import datetime
import os
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp

from nevis_stream.run_directory.environment import describe_environment


def describe() -> str:
    """Returns one line: date, processor, cores, Python and JAX versions, backend."""
    facts = describe_environment()
    packages = facts["packages"]
    return (
        f"{datetime.date.today()}, {facts['processor']}, {facts['cores']} cores, Python"
        f" {facts['python']}, jax {packages['jax']}, backend {jax.default_backend()}, load"
        f" {os.getloadavg()[0]:.1f}"
    )


def clock() -> tuple[Callable[[], float], str]:
    """Returns the clock for timing, and its unit: CPU seconds on a CPU, else seconds."""
    on_cpu = jax.default_backend() == "cpu"
    return (time.process_time, "CPU-s") if on_cpu else (time.perf_counter, "s")


def matrix_product_peak(side: int | None = None, repeats: int = 5, dtype: str = "float32") -> float:
    """Returns FLOPs per CPU second of a matrix product, best of `repeats`.

    Not on a CPU: FLOPs per second, see `clock`.

    Args:
      side: of the matrices; None: 2048 on a CPU, 8192 elsewhere, where smaller ones do not fill the
        machine.
      repeats: rounds.
      dtype: of the matrices; float32 as JAX multiplies it where nothing else is asked (on a GPU
        perhaps as TF32).
    """
    now, unit = clock()
    side = side or (2048 if unit == "CPU-s" else 8192)
    product = jax.jit(jnp.matmul)
    a = jnp.ones((side, side), dtype)
    product(a, a).block_until_ready()
    best = float("inf")
    for _ in range(repeats):
        begun = now()
        product(a, a).block_until_ready()
        best = min(best, now() - begun)
    return 2 * side**3 / best
