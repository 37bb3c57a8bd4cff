"""Feature maps of pictures that know their mirror image.

A map is float32[b, rows, columns, channels] with an even number of columns. The map of the mirrored
picture has its columns in reverse order and its channels permuted, so it is had for nothing, and a
map divides into an even part, equal for the two, and an odd part, of opposite sign. The division is
an orthonormal change of coordinates: distances stay what they are.
"""

import jax
import jax.numpy as jnp
import numpy as np

CELLS = 8
BINS = 9
MIRRORED_BINS = -np.arange(BINS) % BINS
_CLIP = 0.3
_FLOOR = 1e-3  # of a block's energy: flat blocks stay small


def oriented_gradients(pictures, cell: int):
    """Returns histograms of oriented gradients: float32[b, side / cell, side / cell, BINS].

    After Dalal and Triggs (2005): of the three colours the steepest gradient counts; orientations
    are unsigned and shared linearly by the two nearest of the bins at k·180/BINS degrees (0: the
    picture changes from left to right); pixels are shared bilinearly by the nearest cells. Each
    cell is divided by the energy of the four blocks of 2×2 cells around it, clipped, and averaged
    over the four.

    Args:
      pictures: float32[b, side, side, 3] in 0..1.
      cell: side of a cell in pixels, even, and a divisor of the side.
    """
    histograms = _pooled(_by_orientation(*_steepest(pictures)), cell)
    return _normalised(histograms)


def _steepest(pictures):
    """Returns the horizontal and vertical differences [b, side, side] of the steepest colour."""
    colours = jnp.moveaxis(pictures, -1, 0)
    padded = jnp.pad(colours, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="edge")
    padded = jax.lax.optimization_barrier(padded)  # one colour after the other: 4 times as fast
    across = padded[:, :, 1:-1, 2:] - padded[:, :, 1:-1, :-2]
    down = padded[:, :, 2:, 1:-1] - padded[:, :, :-2, 1:-1]
    x, y = across[0], down[0]
    for other_x, other_y in zip(across[1:], down[1:], strict=True):
        steeper = other_x**2 + other_y**2 > x**2 + y**2
        x, y = jnp.where(steeper, other_x, x), jnp.where(steeper, other_y, y)
    return x, y


def _by_orientation(x, y):
    """Returns [b, side, side, BINS]: each gradient's length, in the two bins around its angle."""
    length, angle = jnp.sqrt(x**2 + y**2), jnp.arctan2(y, x)
    place = jnp.where(angle < 0, angle + np.pi, angle) * (BINS / np.pi)  # 0 to BINS, both included
    distance = jnp.abs(place[..., None] - jnp.arange(BINS + 1))
    shares = jnp.maximum(1 - distance, 0) * length[..., None]
    return jnp.concatenate([shares[..., :1] + shares[..., -1:], shares[..., 1:-1]], axis=-1)


def _pooled(shares, cell: int):
    """Returns the means of windows of 2×2 cells, weighted by bilinear interpolation."""
    batch, side, _, bins = shares.shape
    half, count = cell // 2, side // (cell // 2)
    sums = shares.reshape(batch, count, half, count, half, bins).sum((2, 4))
    sums = jnp.pad(sums, ((0, 0), (1, 1), (1, 1), (0, 0)))
    rows = sums[:, :-3:2] + 3 * (sums[:, 1:-2:2] + sums[:, 2:-1:2]) + sums[:, 3::2]
    both = rows[:, :, :-3:2] + 3 * (rows[:, :, 1:-2:2] + rows[:, :, 2:-1:2]) + rows[:, :, 3::2]
    return both * (1 / (4 * cell) ** 2)


def _normalised(histograms):
    energy = (histograms**2).sum(-1)
    energy = jnp.pad(energy, ((0, 0), (1, 1), (1, 1)), mode="edge")
    energy = energy[:, 1:] + energy[:, :-1]
    factor = 1 / jnp.sqrt(energy[:, :, 1:] + energy[:, :, :-1] + _FLOOR)
    upper, lower = factor[:, :-1], factor[:, 1:]
    blocks = (upper[:, :, :-1], upper[:, :, 1:], lower[:, :, :-1], lower[:, :, 1:])
    return sum(jnp.minimum(histograms * block[..., None], _CLIP) for block in blocks) / 4


def shrunk(pictures, side: int):
    """Returns float32[b, side, side, channels]: means of squares of pixels."""
    batch, before, _, channels = pictures.shape
    square = before // side
    return pictures.reshape(batch, side, square, side, square, channels).mean((2, 4))


def parts(feature_map, mirrored_channels: np.ndarray | None = None):
    """Returns the even and the odd part of a map, each float32[b, features / 2].

    Args:
      feature_map: float32[b, rows, columns, channels], an even number of columns.
      mirrored_channels: int[channels], the channel that each becomes in the mirrored picture; None
        where they stay.
    """
    mirrored = feature_map[:, :, ::-1]
    if mirrored_channels is not None:
        mirrored = mirrored[..., mirrored_channels]
    half = feature_map.shape[2] // 2
    left, right = feature_map[:, :, :half], mirrored[:, :, :half]
    batch = len(feature_map)
    scale = 1 / np.sqrt(2)
    return (
        ((left + right) * scale).reshape(batch, -1),
        ((left - right) * scale).reshape(batch, -1),
    )
