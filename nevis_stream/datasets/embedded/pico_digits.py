"""pico_digits: handwritten digits, 8x8 grey, 10 classes.

Real: all 1,797 images of scikit-learn's digits file, a copy of the test part of UCI's "Optical
recognition of handwritten digits" (Alpaydin and Kaynak, 1998; NIST preprocessing; 13 writers).
Levels 0..16 become 0..255. The file does not name the writers, so there is one part, "all",
which is divided by sample: the same writer is in train and in test.
"""

import numpy as np

from nevis_stream.datasets.dataset import SINGLE_LABEL, DataSet, make_dataset
from nevis_stream.datasets.embedded import sources
from nevis_stream.datasets.images import ArrayImages

VERSION = 1


def build() -> DataSet:
    """Returns the data set: part "all", uint8[1797, 8, 8], 10 classes."""
    path = sources.find("sklearn", "datasets/data/digits.csv.gz")
    table = np.loadtxt(path, delimiter=",", dtype=np.int64)
    pixels = ((table[:, :64] * 255 + 8) // 16).astype(np.uint8).reshape(-1, 8, 8)
    parts = {"all": (ArrayImages(pixels, str(path)), table[:, 64])}
    return make_dataset("pico_digits", SINGLE_LABEL, parts, 10)
