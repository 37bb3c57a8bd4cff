"""Writes 200,000 distorted copies of MNIST's training digits, for studies of cost and memory.

  python -m benchmarks.affine_copies mnist_affine.npz

Every copy is rotated by up to 15°, scaled by 0.85 to 1.15, sheared by up to 0.2 and moved by up to
two pixels, all drawn uniformly with seed 0. The file has 200,000 training images and MNIST's own
10,000 test images.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy.ndimage import affine_transform

from nevis_stream import catalogue
from nevis_stream.errors import BadInput
from nevis_stream.launch import entry

COUNT = 200_000


def distort(images: np.ndarray, draw: np.random.RandomState) -> np.ndarray:
    """Returns uint8[n, side, side]: each image under a random affine map about its centre."""
    copies = np.empty_like(images)
    centre = (np.asarray(images.shape[1:]) - 1) / 2
    for number, image in enumerate(images):
        angle, shear = draw.uniform(-np.pi / 12, np.pi / 12), draw.uniform(-0.2, 0.2)
        rotation = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        matrix = np.asarray(rotation) @ [[1, shear], [0, 1]] / draw.uniform(0.85, 1.15)
        offset = centre - matrix @ (centre + draw.uniform(-2, 2, size=2))
        copies[number] = affine_transform(image, matrix, offset, order=1)
    return copies


def main(words: Sequence[str]) -> None:
    """Writes the file."""
    file = Path(entry.take_only_word(words, "the file to write"))
    if not file.parent.is_dir():
        raise BadInput(f"{file.parent}: there is no such folder.")
    draw = np.random.RandomState(0)
    with np.load(catalogue.shared_directory() / "data" / "mnist.npz") as mnist:
        chosen = draw.randint(len(mnist["labels_train"]), size=COUNT)
        np.savez(
            file,
            images_train=distort(mnist["images_train"][chosen][..., 0], draw)[..., None],
            labels_train=mnist["labels_train"][chosen],
            images_test=mnist["images_test"],
            labels_test=mnist["labels_test"],
        )


if __name__ == "__main__":
    entry.start(main, words="FILE")
