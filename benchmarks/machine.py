"""What the benchmarks say of the machine, and its matrix-product peak, measured in the same run."""

import datetime
import os
import time

import jax
import jax.numpy as jnp

from nevis_stream.environment import describe_environment


def describe() -> str:
    """Returns one line: date, processor, cores, Python and JAX versions, backend."""
    facts = describe_environment()
    packages = facts["packages"]
    return (
        f"{datetime.date.today()}, {facts['processor']}, {facts['cores']} cores, Python {facts['python']}, "
        f"jax {packages['jax']}, backend {jax.default_backend()}, load {os.getloadavg()[0]:.1f}"
    )


def matrix_product_peak(side: int = 2048, repeats: int = 5) -> float:
    """Returns FLOPs a CPU second of a float32 matrix product, best of `repeats`."""
    product = jax.jit(jnp.matmul)
    a = jnp.ones((side, side))
    product(a, a).block_until_ready()
    best = float("inf")
    for _ in range(repeats):
        begun = time.process_time()
        product(a, a).block_until_ready()
        best = min(best, time.process_time() - begun)
    return 2 * side**3 / best
