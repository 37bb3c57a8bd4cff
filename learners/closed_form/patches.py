"""A dictionary of whitened patches, and how strongly each occurs in each part of an image.

After Coates, Ng and Lee (2011): the dictionary consists of patches drawn from the images,
normalised and whitened. An image's features are max(0, product − threshold) for the products of its
whitened patches with the dictionary, pooled on a grid. One half of the dictionary mirrors the other
half, so the features of a mirrored image are those of the image in another order.
"""

import jax
import jax.numpy as jnp
import numpy as np

GRID = 4
_CONTRAST = 1e-3  # added to a patch's variance, so that flat patches stay small
_SMOOTHING = 0.1  # added to the eigenvalues, as a share of their mean
_FLOOR = 1e-6  # least that is added to the eigenvalues: patches may all be equal
_THRESHOLD = 0.25


def sample(maps: np.ndarray, side: int, count: int, generator: np.random.Generator) -> np.ndarray:
    """Returns float32[count, side, side, channels]: patches from random positions in the maps."""
    n, height, width, _ = maps.shape
    places = zip(
        generator.integers(n, size=count),
        generator.integers(height - side + 1, size=count),
        generator.integers(width - side + 1, size=count),
        strict=True,
    )
    return np.stack([maps[i, y : y + side, x : x + side] for i, y, x in places])


def dictionary(candidates, members, mirrored_channels):
    """Returns the dictionary as filters of a convolution, whitening included.

    Args:
      candidates: float32[n, side, side, channels], the patches from which, with their mirror
        images, the whitening is computed.
      members: float32[k / 2, side, side, channels], the patches of the dictionary.
      mirrored_channels: int[channels], as in `maps.parts`.

    Returns:
      "filters" float32[side, side, channels, k], each of mean 0, and "offsets" float32[k]: the
      product of a patch with a member of the dictionary is patch · filter / deviation − offset.
    """
    shape = candidates.shape[1:]

    def with_mirrored(patches):
        return jnp.concatenate([patches, patches[:, :, ::-1][..., mirrored_channels]])

    flat = _contrast_normalised(with_mirrored(candidates))
    mean = flat.mean(0)
    centred = flat - mean
    values, vectors = jnp.linalg.eigh(centred.T @ centred / len(flat))
    values = jnp.maximum(values, 0)
    added = jnp.maximum(_SMOOTHING * values.mean(), _FLOOR)
    whitening = (vectors / jnp.sqrt(values + added)) @ vectors.T
    members = (_contrast_normalised(with_mirrored(members)) - mean) @ whitening
    members = members / (jnp.linalg.norm(members, axis=1, keepdims=True) + 1e-6)
    filters = whitening @ members.T
    offsets = mean @ filters
    filters = filters - filters.mean(0)
    return {"filters": filters.reshape(*shape, -1), "offsets": offsets}


def _contrast_normalised(patches):
    flat = patches.reshape(len(patches), -1)
    flat = flat - flat.mean(1, keepdims=True)
    return flat / jnp.sqrt((flat**2).mean(1, keepdims=True) + _CONTRAST)


def encode(maps, filters, offsets, stride: int):
    """Returns float32[b, GRID, GRID, k]: how strongly each patch occurs in each part of a map.

    Args:
      maps: float32[b, side, side, channels].
      filters: from `dictionary`; if they have one channel, the maps' channels are averaged.
      offsets: from `dictionary`.
      stride: distance between neighbouring patches of a map.
    """
    if filters.shape[2] == 1:
        maps = maps.mean(-1, keepdims=True)
    side, squares = filters.shape[0], (maps**2).sum(-1)
    count = filters[..., 0].size
    mean = _window_sums(maps.sum(-1), side, stride) / count
    variance = jnp.maximum(_window_sums(squares, side, stride) / count - mean**2, 0)
    products = jax.lax.conv_general_dilated(
        maps, filters, (stride, stride), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    products = products / jnp.sqrt(variance + _CONTRAST)[..., None] - offsets
    weights = jnp.asarray(_grid_weights(products.shape[1]), jnp.float32)
    return jnp.einsum("gh,bhwk,cw->bgck", weights, jnp.maximum(products - _THRESHOLD, 0), weights)


def _window_sums(values, side: int, stride: int):
    rows = jax.lax.reduce_window(values, 0.0, jax.lax.add, (1, side, 1), (1, stride, 1), "VALID")
    return jax.lax.reduce_window(rows, 0.0, jax.lax.add, (1, 1, side), (1, 1, stride), "VALID")


def _grid_weights(count: int) -> np.ndarray:
    """Returns float[GRID, count]: means over `count` positions, linearly interpolated."""
    places, centres = (np.arange(count) + 0.5) * GRID / count, np.arange(GRID) + 0.5
    weights = np.maximum(1 - np.abs(places - centres[:, None]), 0)
    return weights / weights.sum(1, keepdims=True)


def mirrored_members(count: int) -> np.ndarray:
    """Returns int[count]: for each member of a dictionary, the one that is its mirror image."""
    return np.roll(np.arange(count), count // 2)
