"""Feature maps from which those of the mirrored image follow without further computation.

A map is float32[b, rows, columns, channels] with an even number of columns. The map of the mirrored
image has its columns in reverse order and its channels permuted. A map is therefore split into an
even part, which is the same for both, and an odd part, which changes its sign. The split is an
orthonormal change of coordinates, so it preserves distances.
"""

from collections.abc import Collection

import jax
import jax.numpy as jnp
import numpy as np

from nevis_stream.cost.counted import wants_faster_form

BINS = 9
MIRRORED_BINS = -np.arange(BINS) % BINS
_CLIP = 0.3
_TINY = 1e-30  # what 0 is divided by instead of 0
# the coefficients of the even powers of x in arctan(x) / x, the highest first
_ARCTANGENT = (
    0.0028662257,
    -0.0161657367,
    0.0429096138,
    -0.0752896400,
    0.1065626393,
    -0.1420889944,
    0.1999355085,
    -0.3333314528,
    1.0,
)
_FLOOR = 1e-3  # added to a block's energy, so that flat blocks stay small


def compute_oriented_gradients(images, cells: Collection[int]):
    """Returns histograms of oriented gradients: {cell: float32[b, side / cell, side / cell, BINS]}.

    After Dalal and Triggs (2005): the steepest of the three colours' gradients is used. Its
    unsigned orientation is divided linearly between the two nearest bins, at k·180/BINS degrees (0:
    the image changes from left to right), and each pixel bilinearly among the nearest cells. A cell
    is normalised by each of the four blocks of 2×2 cells that contain it, clipped, and averaged
    over the four.

    Args:
      images: float32[b, side, side, 3] in [0, 1].
      cells: sides of cells in pixels; even, and divisors of `side`.
    """
    sums = _half_cell_sums(images, cells)
    return {cell: _normalise(_windows(sums[cell], cell)) for cell in cells}


def _half_cell_sums(images, cells: Collection[int]):
    """Returns {cell: float32[b, 2 · side / cell, 2 · side / cell, BINS]}: sums over half-cells.

    Those of larger cells are sums of those of smaller ones where these divide them.
    """
    x, y = _steepest(images)
    shares = None if wants_faster_form() else _by_orientation(x, y)
    sums = {}
    for cell in sorted(cells):
        finer = max((smaller for smaller in sums if cell % smaller == 0), default=None)
        if finer is not None:
            sums[cell] = _add(sums[finer], cell // finer)
        elif shares is None:
            sums[cell] = _add_row_by_row(x, y, cell // 2)
        else:
            sums[cell] = _add(shares, cell // 2)
    return sums


def _steepest(images):
    """Returns [b, side, side] horizontal and vertical differences of the steepest colour."""
    colours = jnp.moveaxis(images, -1, 0)
    padded = jnp.pad(colours, ((0, 0), (0, 0), (1, 1), (1, 1)), mode="edge")
    padded = jax.lax.optimization_barrier(
        padded
    )  # computing one colour after another is 4 times as fast
    across = padded[:, :, 1:-1, 2:] - padded[:, :, 1:-1, :-2]
    down = padded[:, :, 2:, 1:-1] - padded[:, :, :-2, 1:-1]
    x, y = across[0], down[0]
    for other_x, other_y in zip(across[1:], down[1:], strict=True):
        steeper = other_x**2 + other_y**2 > x**2 + y**2
        x, y = jnp.where(steeper, other_x, x), jnp.where(steeper, other_y, y)
    return x, y


def _by_orientation(x, y):
    """Returns [b, side, side, BINS]: gradients' lengths, divided between the two nearest bins."""
    length, angle = jnp.sqrt(x**2 + y**2), jnp.arctan2(y, x)
    place = jnp.where(angle < 0, angle + np.pi, angle) * (BINS / np.pi)  # in [0, BINS]
    distance = jnp.abs(place[..., None] - jnp.arange(BINS + 1))
    shares = jnp.maximum(1 - distance, 0) * length[..., None]
    return jnp.concatenate([shares[..., :1] + shares[..., -1:], shares[..., 1:-1]], axis=-1)


def _add(values, count: int):
    """Returns [b, side / count, side / count, bins]: sums over count × count positions."""
    batch, side, _, bins = values.shape
    squares = values.reshape(batch, side // count, count, side // count, count, bins)
    return squares.sum((2, 4))


def _add_row_by_row(x, y, half: int):
    """Returns `_add(_by_orientation(x, y), half)`, on a CPU at a fifth of the time.

    The shares of all bins are never stored: each bin's are computed and added over `half` rows,
    with the pixels of a row next to each other in memory. XLA's atan2 is not vectorised, so the
    angle is a polynomial.
    """
    x, y = jax.lax.optimization_barrier((x, y))
    place, length = jax.lax.optimization_barrier((_place(x, y), jnp.sqrt(x**2 + y**2)))
    batch, side, _ = x.shape
    count = side // half
    place, length = (each.reshape(batch, 1, count, half, side) for each in (place, length))
    bins = jnp.arange(BINS, dtype=x.dtype)[:, None, None]

    def shares(row):
        distance = jnp.abs(place[:, :, :, row] - bins)
        distance = jnp.minimum(distance, BINS - distance)
        return jnp.maximum(1 - distance, 0) * length[:, :, :, row]

    rows = sum(shares(row) for row in range(half)).reshape(batch, BINS, count, count, half)
    sums = sum(rows[..., column] for column in range(half))
    return jnp.moveaxis(sums, 1, -1)


def _place(x, y):
    """Returns the unsigned direction of (x, y) in bins, in [0, BINS], within 1e-6.

    Source: Abramowitz and Stegun 1964, equation 4.4.49 (the arctangent on [0, 1]).
    """
    wide, high = jnp.abs(x), jnp.abs(y)
    tangent = jnp.minimum(wide, high) / jnp.maximum(jnp.maximum(wide, high), _TINY)
    angle = tangent * jnp.polyval(jnp.asarray(_ARCTANGENT, x.dtype), tangent**2)
    angle = jnp.where(high > wide, np.pi / 2 - angle, angle)
    return jnp.where(x * y < 0, np.pi - angle, angle) * (BINS / np.pi)


def _windows(sums, cell: int):
    """Returns the means of windows of 2×2 cells, weighted by bilinear interpolation.

    Args:
      sums: float32[b, rows, columns, bins], sums over half-cells.
      cell: the size of a cell in pixels.
    """
    sums = jnp.pad(sums, ((0, 0), (1, 1), (1, 1), (0, 0)))
    rows = sums[:, :-3:2] + 3 * (sums[:, 1:-2:2] + sums[:, 2:-1:2]) + sums[:, 3::2]
    both = rows[:, :, :-3:2] + 3 * (rows[:, :, 1:-2:2] + rows[:, :, 2:-1:2]) + rows[:, :, 3::2]
    return both * (1 / (4 * cell) ** 2)


def _normalise(histograms):
    energy = (histograms**2).sum(-1)
    energy = jnp.pad(energy, ((0, 0), (1, 1), (1, 1)), mode="edge")
    energy = energy[:, 1:] + energy[:, :-1]
    factor = 1 / jnp.sqrt(energy[:, :, 1:] + energy[:, :, :-1] + _FLOOR)
    upper, lower = factor[:, :-1], factor[:, 1:]
    blocks = (upper[:, :, :-1], upper[:, :, 1:], lower[:, :, :-1], lower[:, :, 1:])
    return sum(jnp.minimum(histograms * block[..., None], _CLIP) for block in blocks) / 4


def shrink(images, side: int):
    """Returns float32[b, side, side, channels]: the means of square blocks of pixels."""
    batch, before, _, channels = images.shape
    square = before // side
    return images.reshape(batch, side, square, side, square, channels).mean((2, 4))


def split_by_symmetry(feature_map, mirrored_channels: np.ndarray | None = None):
    """Returns the even and the odd part of a map, each float32[b, features / 2].

    Args:
      feature_map: float32[b, rows, columns, channels], an even number of columns.
      mirrored_channels: int[channels], the channel that each one becomes in the mirrored image;
        None if they do not change.
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
