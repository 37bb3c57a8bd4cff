"""Features of images without labels: how strongly patches occur, as principal components.

After Coates, Ng and Lee (2011): the dictionary consists of patches drawn from the images,
normalised and whitened, and of their mirror images. An image's features are max(0, product −
threshold) for the products of its patches with the dictionary, averaged on a grid.
"""

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from nevis_stream.learners.closed_form import patches
from nevis_stream.seeds import generator

SIDE, STRIDE, COUNT, COMPONENTS = 7, 2, 128, 256
_IMAGES, _CANDIDATES = 1000, 8192  # for the dictionary
_FITTED = 8000  # images for the components
_BATCH = 500
_SMOOTHING = 0.1  # added to the eigenvalues, as a share of their mean
_FLOOR = 1e-6  # least that is added to the eigenvalues: patches may all be equal
_THRESHOLD = 0.25


@dataclass(frozen=True)
class PatchFeatures:
    """A fitted extractor: float32[n, d] with a mean square of 1 from uint8[n, side, side, c].

    Attributes:
      tree: dictionary, mean and projection.
    """

    tree: dict[str, np.ndarray]

    @classmethod
    def fit(cls, images: np.ndarray, seed: int = 0, components: int = COMPONENTS):
        """Returns an extractor whose patches and components come from these images.

        Args:
          images: uint8[n, side, side, channels], side at least 8.
          seed: of the patches.
          components: number of features; fewer if there are fewer images.
        """
        random = generator(seed, "patches")
        few = images[random.permutation(len(images))[:_FITTED]]
        unit = few[:_IMAGES].astype(np.float32) / 255
        candidates = patches.sample(unit, SIDE, _CANDIDATES, random)
        members = patches.sample(unit, SIDE, COUNT // 2, random)
        tree = _dictionary(candidates, members)
        encoded = _encode(tree, few)
        mean = encoded.mean(axis=0)
        values, vectors = _principal(encoded - mean)
        count = min(components, len(few))
        scale = np.sqrt(count / max(values[-count:].sum(), 1e-12))
        projection = vectors[:, ::-1][:, :count] * scale
        return cls(tree | {"mean": mean, "projection": projection.astype(np.float32)})

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """Returns the features, float32[n, d]."""
        parts = [
            (_encode(self.tree, images[start : start + _BATCH]) - self.tree["mean"])
            @ self.tree["projection"]
            for start in range(0, len(images), _BATCH)
        ]
        return np.concatenate(parts)


def _principal(centred: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the variances of n vectors along principal axes, and the axes as columns, the largest
    last.
    """
    n, width = centred.shape
    if n >= width:
        return np.linalg.eigh(centred.T @ centred / n)
    # the axes lie in the span of the vectors: a matrix of n × n is enough
    values, vectors = np.linalg.eigh(centred @ centred.T / n)
    return values, centred.T @ (vectors / np.sqrt(n * np.maximum(values, 1e-12)))


def _dictionary(candidates: np.ndarray, members: np.ndarray) -> dict[str, np.ndarray]:
    """Returns a dictionary of k patches as filters of a convolution, whitening included.

    Args:
      candidates: float32[n, side, side, channels], patches from which the whitening is computed.
      members: float32[k / 2, side, side, channels], the patches of the dictionary.

    Returns:
      "filters" float32[side, side, channels, k], each of mean 0, and "offsets" float32[k]: the
      product of a patch with a member of the dictionary is patch · filter / deviation − offset.
    """

    def flat(some):
        return patches.normalise_contrast(jnp.concatenate([some, some[:, :, ::-1]]))

    normalised = flat(candidates)
    mean = normalised.mean(0)
    centred = normalised - mean
    values, vectors = jnp.linalg.eigh(centred.T @ centred / len(normalised))
    values = jnp.maximum(values, 0)
    added = jnp.maximum(_SMOOTHING * values.mean(), _FLOOR)
    whitening = (vectors / jnp.sqrt(values + added)) @ vectors.T
    whitened = (flat(members) - mean) @ whitening
    whitened = whitened / (jnp.linalg.norm(whitened, axis=1, keepdims=True) + 1e-6)
    filters = whitening @ whitened.T
    offsets = mean @ filters
    filters = (filters - filters.mean(0)).reshape(*candidates.shape[1:], -1)
    return {"filters": np.asarray(filters), "offsets": np.asarray(offsets)}


def _activations(maps, filters, offsets):
    """Returns float32[b, patches.GRID, patches.GRID, k]: how strongly patches occur in each part.

    Args:
      maps: float32[b, side, side, channels].
      filters, offsets: from `_dictionary`.
    """
    products = jax.lax.conv_general_dilated(
        maps, filters, (STRIDE, STRIDE), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    products = products / patches.compute_deviations(maps, SIDE, STRIDE)[..., None] - offsets
    weights = jnp.asarray(patches.make_grid_weights(products.shape[1]), jnp.float32)
    return jnp.einsum("gh,bhwk,cw->bgck", weights, jnp.maximum(products - _THRESHOLD, 0), weights)


@functools.cache
def _program():
    def encode(images, filters, offsets):
        unit = images.astype(jnp.float32) / 255
        padded = jnp.pad(unit, ((0, 0), (2, 2), (2, 2), (0, 0)))
        return jnp.sqrt(_activations(padded, filters, offsets)).reshape(len(images), -1)

    return jax.jit(encode)


def _encode(tree, images):
    parts = []
    for start in range(0, len(images), _BATCH):
        part = images[start : start + _BATCH]
        padded = np.pad(part, [(0, min(_BATCH, len(images)) - len(part))] + [(0, 0)] * 3)
        parts.append(np.asarray(_program()(padded, tree["filters"], tree["offsets"]))[: len(part)])
    return np.concatenate(parts)
