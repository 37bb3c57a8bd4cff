"""The Gaussian kernel, for images and their mirror images."""

import jax.numpy as jnp


def kernel(left, right, width, mirrored):
    """Returns float32[a, b]: exp(−squared distance / width), averaged over mirror images.

    An image is (e, o), its even and odd parts, and its mirror image (e, −o), so both distances use
    the same products.

    Args:
      left: {"even": float32[a, k], "odd": float32[a, l]}, an embedding.
      right: the same, for b images.
      width: a squared distance.
      mirrored: 1 for (k(x, y) + k(x, mirrored y)) / 2, 0 for k(x, y).
    """
    squares = [(part["even"] ** 2).sum(1) + (part["odd"] ** 2).sum(1) for part in (left, right)]
    odd = left["odd"] @ right["odd"].T
    even = squares[0][:, None] + squares[1] - 2 * (left["even"] @ right["even"].T)
    same = jnp.exp(-jnp.maximum(even - 2 * odd, 0) / width)
    other = jnp.exp(-jnp.maximum(even + 2 * odd, 0) / width)
    return same + mirrored * 0.5 * (other - same)
