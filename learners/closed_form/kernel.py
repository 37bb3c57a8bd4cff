"""The Gaussian kernel, for pictures and their mirror images."""

import jax.numpy as jnp


def kernel(left, right, width, mirrored):
    """Returns float32[a, b]: exp(−squared distance / width), the mean of it over mirrored pictures.

    With even parts e and odd parts o, the mirrored picture being (e, −o), the distance to it needs
    no more products than the distance to the picture.

    Args:
      left: {"even": float32[a, k], "odd": float32[a, l]}, an embedding.
      right: the same for b pictures.
      width: a squared distance.
      mirrored: 1 for (k(x, y) + k(x, mirrored y)) / 2, 0 for k(x, y).
    """
    squares = [(part["even"] ** 2).sum(1) + (part["odd"] ** 2).sum(1) for part in (left, right)]
    odd = left["odd"] @ right["odd"].T
    even = squares[0][:, None] + squares[1] - 2 * (left["even"] @ right["even"].T)
    same = jnp.exp(-jnp.maximum(even - 2 * odd, 0) / width)
    other = jnp.exp(-jnp.maximum(even + 2 * odd, 0) / width)
    return same + mirrored * 0.5 * (other - same)
