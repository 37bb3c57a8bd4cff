"""Features of images without labels: how strongly patches occur, as principal components."""

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from learners.closed_form import patches
from nevis_stream.seeds import generator

SIDE, STRIDE, COUNT, COMPONENTS = 7, 2, 128, 256
_IMAGES, _CANDIDATES = 1000, 8192  # for the dictionary
_FITTED = 8000  # images for the components
_BATCH = 500


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
        tree = patches.dictionary(candidates, members, np.arange(images.shape[-1]))
        tree = {name: np.asarray(each) for name, each in tree.items()}
        encoded = _encoded(tree, few)
        mean = encoded.mean(axis=0)
        covariance = (encoded - mean).T @ (encoded - mean) / len(encoded)
        values, vectors = np.linalg.eigh(covariance)
        count = min(components, len(few))
        scale = np.sqrt(count / max(values[-count:].sum(), 1e-12))
        projection = vectors[:, ::-1][:, :count] * scale
        return cls(tree | {"mean": mean, "projection": projection.astype(np.float32)})

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """Returns the features, float32[n, d]."""
        parts = [
            (_encoded(self.tree, images[start : start + _BATCH]) - self.tree["mean"])
            @ self.tree["projection"]
            for start in range(0, len(images), _BATCH)
        ]
        return np.concatenate(parts)


@functools.cache
def _program():
    def encode(images, filters, offsets):
        unit = images.astype(jnp.float32) / 255
        padded = jnp.pad(unit, ((0, 0), (2, 2), (2, 2), (0, 0)))
        pooled = patches.encode(padded, filters, offsets, STRIDE)
        return jnp.sqrt(pooled).reshape(len(images), -1)

    return jax.jit(encode)


def _encoded(tree, images):
    parts = []
    for start in range(0, len(images), _BATCH):
        part = images[start : start + _BATCH]
        padded = np.pad(part, [(0, min(_BATCH, len(images)) - len(part))] + [(0, 0)] * 3)
        parts.append(np.asarray(_program()(padded, tree["filters"], tree["offsets"]))[: len(part)])
    return np.concatenate(parts)
