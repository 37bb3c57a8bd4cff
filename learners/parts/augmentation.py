"""Training views, computed on the device: random-resized crops and horizontal flips.

Images are stored as squares of one size (`Images.banded`), with their original height and width.
Crops are drawn in the original geometry, so their area and aspect ratio have the distribution that
crops of the original would have; only their resolution is limited by the stored size.
"""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from nevis_stream.cost.counted import wants_faster_form

_ATTEMPTS = 10
_TILE = 8  # rows of a view that are computed together


@dataclass(frozen=True)
class Augmentation:
    """The random choices of a training view (NEVIS'22, section 4).

    Attributes:
      crop: whether to take a random-resized crop.
      min_area: smallest fraction of the image's area in a crop; the largest is 1.
      max_aspect: width over height of a crop is between 1 / max_aspect and max_aspect.
      flip: whether to mirror half of the views.
    """

    crop: bool = True
    min_area: float = 0.08
    max_aspect: float = 4 / 3
    flip: bool = True


def to_unit_range(images: jax.Array) -> jax.Array:
    """Returns float32 in [-1, 1] for uint8 in [0, 255]."""
    return images.astype(jnp.float32) * (2 / 255) - 1


def draw_boxes(key: jax.Array, sizes: jax.Array, options: Augmentation) -> jax.Array:
    """Draws a crop box for each image.

    Args:
      key: JAX key.
      sizes: int32[b, 2], height and width of the original images in pixels.
      options: smallest area and largest aspect ratio.

    Returns:
      float32[b, 4]: top, left, height, width as fractions of the image. Of ten draws the first that
      fits into the image; if none does, the whole image.
    """
    batch = sizes.shape[0]
    # one call for all, since a call takes longer than drawing its numbers
    drawn = jax.random.uniform(key, (batch, 2 * _ATTEMPTS + 2))
    area = options.min_area + (1 - options.min_area) * drawn[:, :_ATTEMPTS]
    limit = math.log(options.max_aspect)
    aspect = jnp.exp(limit * (2 * drawn[:, _ATTEMPTS:-2] - 1))
    image_aspect = (sizes[:, 1] / sizes[:, 0]).astype(jnp.float32)[:, None]
    height = jnp.sqrt(area * image_aspect / aspect)
    width = jnp.sqrt(area * aspect / image_aspect)
    fits = (height <= 1) & (width <= 1)
    first = jnp.argmax(fits, axis=1)
    rows = jnp.arange(batch)
    fitting = fits[rows, first]
    height = jnp.where(fitting, height[rows, first], 1.0)
    width = jnp.where(fitting, width[rows, first], 1.0)
    place = drawn[:, -2:]
    return jnp.stack([place[:, 0] * (1 - height), place[:, 1] * (1 - width), height, width], axis=1)


def crop_and_resize(images: jax.Array, boxes: jax.Array, size: int) -> jax.Array:
    """Crops one box from each image and resizes it (bilinear).

    Each axis is resized by a matrix product, which on a CPU is many times faster than gathering
    pixels. Gathering whole rows is faster still on a CPU, but FLOPs are counted for the products.

    Args:
      images: uint8 or float32[b, s, 3, s] (`Images.banded`).
      boxes: float32[b, 4], top, left, height, width as fractions of the image, 0 < height ≤ 1; a
        negative width mirrors the view.
      size: side of the result in pixels.

    Returns:
      float32[b, size, size, 3].
    """
    batch, source = images.shape[:2]

    def centres(start, extent):  # of the view's pixels, in pixels of the image
        return jnp.clip(
            (start + (jnp.arange(size) + 0.5) / size * extent) * source - 0.5, 0, source - 1
        )

    top, left, height, width = (boxes[:, i, None] for i in range(4))
    rows = (
        _rows_from_two if jax.default_backend() == "cpu" and wants_faster_form() else _rows_by_tiles
    )
    short = rows(images.reshape(batch, source, 3 * source), centres(top, height)).reshape(
        batch, size * 3, source
    )
    # [b, source, size]
    columns = _interpolation_weights(centres(left, width)[:, None, :], jnp.arange(source)[:, None])
    return (short @ columns).reshape(batch, size, 3, size).swapaxes(2, 3)


def _interpolation_weights(centre: jax.Array, pixel: jax.Array) -> jax.Array:
    """Returns the weights of the two nearest pixels in linear interpolation; 0 elsewhere."""
    return jnp.maximum(0, 1 - jnp.abs(centre - pixel))


def _rows_by_tiles(images: jax.Array, centres: jax.Array) -> jax.Array:
    """Returns float32[b, size, w]: the rows of images [b, s, w] at float32[b, size] centres.

    Each tile of 8 rows is a product with the few rows that it can need, which takes a third of the
    work of a product with all rows.
    """
    (batch, source), size = images.shape[:2], centres.shape[1]
    tile = _TILE if size % _TILE == 0 else size
    window = min(source, math.ceil((tile - 1) * source / size) + 2)
    tiled = centres.reshape(batch, -1, tile)
    # first of the rows that a tile can need
    first = jnp.clip(tiled[..., 0].astype(jnp.int32), 0, source - window)
    # [b, tiles, tile, window]
    rows = _interpolation_weights(tiled[..., None] - first[..., None, None], jnp.arange(window))
    cut = jax.vmap(
        lambda image, starts: jax.vmap(lambda at: jax.lax.dynamic_slice_in_dim(image, at, window))(
            starts
        )
    )
    return (rows @ cut(images, first).astype(jnp.float32)).reshape(batch, size, -1)


def _rows_from_two(images: jax.Array, centres: jax.Array) -> jax.Array:
    """Returns the same as `_rows_by_tiles`, from the two nearest rows of each row.

    This is 1.5 to 2 times faster on a CPU.
    """
    last = images.shape[1] - 1
    upper = jnp.clip(centres.astype(jnp.int32), 0, max(last - 1, 0))

    def rows(at):
        return jnp.take_along_axis(images, at[..., None], axis=1, mode="promise_in_bounds").astype(
            jnp.float32
        )

    above = rows(upper)
    return above + (centres - upper)[..., None] * (rows(jnp.minimum(upper + 1, last)) - above)


def augment_batch(
    key: jax.Array, images: jax.Array, sizes: jax.Array, size: int, options: Augmentation
) -> jax.Array:
    """Returns augmented views of stored images.

    Args:
      key: JAX key.
      images: uint8[b, s, 3, s] (`Images.banded`).
      sizes: int32[b, 2], height and width of the original images in pixels.
      size: side of the views in pixels.
      options: which augmentations.

    Returns:
      float32[b, size, size, 3] in [-1, 1].
    """
    crop_key, flip_key = jax.random.split(key)
    if options.crop:
        boxes = draw_boxes(crop_key, sizes, options)
    else:
        boxes = jnp.tile(jnp.asarray([0.0, 0.0, 1.0, 1.0]), (images.shape[0], 1))
    if options.flip:
        mirrored = jax.random.bernoulli(flip_key, 0.5, images.shape[:1])
        top, left, height, width = boxes.T
        boxes = jnp.stack(
            [
                top,
                jnp.where(mirrored, left + width, left),
                height,
                jnp.where(mirrored, -width, width),
            ],
            axis=1,
        )
    return to_unit_range(crop_and_resize(images, boxes, size))
