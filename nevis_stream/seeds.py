"""Named random streams: every use of randomness has its own seed, derived from one root.

>>> seed_for(7, "batches", 0) == seed_for(7, "batches", 0) != seed_for(7, "batches", 1)
True
"""

import hashlib
import json

import numpy as np

from nevis_stream.errors import BadInput

LEAST = -(2**63)
"""The least seed of an evaluation."""


def make_path_seed(path: tuple[str, ...]) -> int:
    """Returns the seed in [0, 2**63) of a run's, a task's or a trial's path."""
    return _hash("/".join(path))


def check_seed(seed: int, least: int = 0) -> int:
    """Returns a seed that somebody gave, as a number of Python's.

    Raises:
      BadInput: it is no whole number from `least` to 2**63 - 1.
    """
    is_whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
    if not is_whole or not least <= seed < 2**63:
        lowest = "-2**63" if least == LEAST else least
        raise BadInput(f"seed is {seed!r}; valid: whole numbers from {lowest} to 2**63 - 1.")
    return int(seed)


def seed_for(seed: int, *name: str | int, bits: int = 63) -> int:
    """Returns the seed in [0, 2**bits) of one use; different names give unrelated seeds.

    Args:
      seed: of a run, a task or a trial.
      name: of the use, with numbers if it has several streams: `"batches", epoch`.
      bits: from 1 to 63.

    Raises:
      BadInput: another number of bits.
    """
    if isinstance(bits, bool) or not isinstance(bits, int) or not 1 <= bits <= 63:
        raise BadInput(f"seed_for: bits={bits!r}; valid: a whole number from 1 to 63.")
    return _hash(json.dumps([seed, *name])) >> (63 - bits)


def generator(seed: int, *name: str | int) -> np.random.Generator:
    """Returns a new NumPy generator at the start of the stream `seed_for(seed, *name)`."""
    return np.random.Generator(np.random.PCG64(seed_for(seed, *name)))


def key_of(seed: int):
    """Returns the JAX key of a seed (threefry, 64 bits)."""
    import jax

    return jax.random.wrap_key_data(
        np.asarray([seed >> 32, seed & 0xFFFFFFFF], np.uint32), impl="threefry2x32"
    )


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1
