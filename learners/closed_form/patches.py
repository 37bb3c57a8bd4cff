"""A dictionary of visual words, and how strongly each occurs in each part of an image.

After Coates, Ng and Lee (2011): patches are whitened, and the means of their clusters are the
words. A patch activates the words that are nearer to it than the words are on average; an image's
features are the activations, averaged on a grid. Each word of one half of the dictionary is the
mirror image of one of the other half, so the features of a mirrored image are those of the image in
another order.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

GRID = 4
_CONTRAST = 1e-3  # added to a patch's variance, so that flat patches stay small
_SMOOTHING = 0.1  # added to the eigenvalues, as a share of their mean
_FLOOR = 1e-6  # added to them as well: patches may all be equal
_REACH = 0.85  # share of the mean distance to the words within which a word is activated
_ROUNDS = 8  # of k-means
_AT_ONCE = 16  # images of which all distances are in memory
_TINY = 1e-3  # added to the length of a part's features, so that empty parts stay empty


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


@functools.cache
def make_dictionary_program(words: int, components: int, contrast: bool) -> Callable:
    """Returns f(patches, mirrored_channels) → a dictionary.

    Args:
      words: number of words, k; even.
      components: number of principal components, c, in which patches are compared; at most as many
        as a patch has values.
      contrast: whether patches are normalised to mean 0 and deviation 1 first.

    The function's arguments:
      patches: float32[n, side, side, channels], in random order; n is at least k / 2.
      mirrored_channels: int[channels], as in `maps.split_by_symmetry`.

    It returns "filters" float32[side, side, channels, c], "offsets" float32[c], and "words"
    float32[k, c]: the components of a patch are patch · filter − offset; with `contrast` the
    filters have mean 0, and the product is divided by the patch's deviation.
    """
    flat = normalise_contrast if contrast else _flatten

    def fit(patches, mirrored_channels):
        shape, n = patches.shape[1:], len(patches)
        plain, other = flat(patches), flat(patches[:, :, ::-1][..., mirrored_channels])
        mean = (plain.mean(0) + other.mean(0)) / 2
        plain, other = plain - mean, other - mean
        values, vectors = jnp.linalg.eigh((plain.T @ plain + other.T @ other) / (2 * n))
        values = jnp.maximum(values, 0)
        scales = jnp.sqrt(values + _SMOOTHING * values.mean() + _FLOOR)
        filters = (vectors / scales)[:, ::-1][:, :components]
        found = _find_clusters(plain @ filters, other @ filters, words // 2)
        offsets = mean @ filters
        if contrast:
            filters = filters - filters.mean(0)
        return {"filters": filters.reshape(*shape, -1), "offsets": offsets, "words": found}

    return fit


def _find_clusters(plain, other, count: int):
    """Returns float32[2 · count, c]: means of clusters, then those of the mirrored clusters.

    A patch belongs to the nearest mean; if that is a mirrored one, its mirror image belongs to the
    cluster. (Lloyd's method on all patches and their mirror images, with half of the work.)

    Args:
      plain: float32[n, c], patches.
      other: float32[n, c], their mirror images.
      count: number of clusters in each half.
    """

    def improve(means, _):
        nearest = _compute_distances(plain, means).argmin(1)
        mirrored = (nearest >= count)[:, None]
        members = jax.nn.one_hot(nearest % count, count)
        size = members.sum(0)[:, None]
        sums = jnp.concatenate(
            [
                members.T @ jnp.where(mirrored, other, plain),
                members.T @ jnp.where(mirrored, plain, other),
            ]
        )
        size = jnp.concatenate([size, size])
        return jnp.where(size > 0, sums / jnp.maximum(size, 1), means), None

    start = jnp.concatenate([plain[:count], other[:count]])
    return jax.lax.scan(improve, start, length=_ROUNDS)[0]


def _compute_distances(left, right):
    """Returns float32[a, b]: the distances of a vectors from b vectors."""
    squares = (left**2).sum(1)[:, None] + (right**2).sum(1) - 2 * (left @ right.T)
    return jnp.sqrt(jnp.maximum(squares, 0))


def _flatten(patches):
    return patches.reshape(len(patches), -1)


def normalise_contrast(patches):
    """Returns float32[n, values]: each patch with mean 0 and a deviation of about 1."""
    flat = _flatten(patches)
    flat = flat - flat.mean(1, keepdims=True)
    return flat / jnp.sqrt((flat**2).mean(1, keepdims=True) + _CONTRAST)


def encode(maps, filters, offsets, words, stride: int, contrast: bool):
    """Returns float32[b, GRID, GRID, k]: how strongly each word occurs in each part of a map.

    Square roots of the mean activations; the features of each part have length 1 (Arandjelović and
    Zisserman 2012).

    Args:
      maps: float32[b, side, side, channels].
      filters, offsets, words: from `make_dictionary_program`; if the filters have one channel, the
        maps' channels are averaged.
      stride: distance between neighbouring patches of a map.
      contrast: as for the dictionary.
    """
    if filters.shape[2] == 1:
        maps = maps.mean(-1, keepdims=True)
    products = jax.lax.conv_general_dilated(
        maps, filters, (stride, stride), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    if contrast:
        products = products / compute_deviations(maps, filters.shape[0], stride)[..., None]
    components = products - offsets
    weights = jnp.asarray(make_grid_weights(components.shape[1]), jnp.float32)

    def pooled(image):
        distances = _compute_distances(image.reshape(-1, image.shape[-1]), words)
        activations = jnp.maximum(_REACH * distances.mean(1, keepdims=True) - distances, 0)
        activations = activations.reshape(*image.shape[:2], -1)
        return jnp.einsum("gh,hwk,cw->gck", weights, activations, weights)

    features = jnp.sqrt(jax.lax.map(pooled, components, batch_size=_AT_ONCE))
    return features / (jnp.linalg.norm(features, axis=-1, keepdims=True) + _TINY)


def compute_deviations(maps, side: int, stride: int):
    """Returns float32[b, rows, columns]: the deviation of the values of each patch."""
    count = side**2 * maps.shape[-1]
    mean = _sum_windows(maps.sum(-1), side, stride) / count
    variance = _sum_windows((maps**2).sum(-1), side, stride) / count - mean**2
    return jnp.sqrt(jnp.maximum(variance, 0) + _CONTRAST)


def _sum_windows(values, side: int, stride: int):
    rows = jax.lax.reduce_window(values, 0.0, jax.lax.add, (1, side, 1), (1, stride, 1), "VALID")
    return jax.lax.reduce_window(rows, 0.0, jax.lax.add, (1, 1, side), (1, 1, stride), "VALID")


def make_grid_weights(count: int) -> np.ndarray:
    """Returns float[GRID, count]: means over `count` positions, linearly interpolated."""
    places, centres = (np.arange(count) + 0.5) * GRID / count, np.arange(GRID) + 0.5
    weights = np.maximum(1 - np.abs(places - centres[:, None]), 0)
    return weights / weights.sum(1, keepdims=True)


def match_mirrored_words(count: int) -> np.ndarray:
    """Returns int[count]: for each word of a dictionary, the one that is its mirror image."""
    return np.roll(np.arange(count), count // 2)
