"""pico_faces: is it a face? 25x25 grey, 2 classes (0 no face, 1 face), 200 images.

Real: scikit-image's `lfw_subset`, crops from Labeled Faces in the Wild (Huang et al.); the file's
first 100 are faces, the other 100 are pieces of background. The first 70 of each half are train,
the last 30 test; the file does not name the people, so one person may be in both. The faces are of
identifiable people.
"""

import numpy as np

from nevis_stream.datasets.dataset import SINGLE_LABEL, DataSet, make_dataset
from nevis_stream.datasets.embedded import sources
from nevis_stream.datasets.images import ArrayImages

VERSION = 1
HALF = 100
TRAIN = 70


def build() -> DataSet:
    """Returns the data set: uint8[140, 25, 25] train, uint8[60, 25, 25] test, 2 classes."""
    # scikit-image after 0.26 keeps the same array in a compressed file.
    path = sources.find("skimage", "data/lfw_subset.npy", "data/lfw_subset.npz")
    crops = np.load(path)
    if not isinstance(crops, np.ndarray):
        crops = crops[crops.files[0]]
    pixels = np.rint(crops * 255).astype(np.uint8)
    is_face = (np.arange(len(pixels)) < HALF).astype(np.int32)
    in_train = np.arange(len(pixels)) % HALF < TRAIN
    parts = {
        name: (ArrayImages(pixels[chosen], str(path)), is_face[chosen])
        for name, chosen in (("train", in_train), ("test", ~in_train))
    }
    return make_dataset("pico_faces", SINGLE_LABEL, parts, 2)
