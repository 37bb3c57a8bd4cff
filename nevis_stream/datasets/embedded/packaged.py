"""Images that installed packages carry: where they are, and data sets that are whole files of them.

No package is imported and no fetcher is called (scikit-image's fetchers may try the network), so a
file that is missing is an error that names the package, the file and a version that carries it.
"""

import importlib.util
from pathlib import Path

import numpy as np

from nevis_stream.datasets.dataset import SINGLE_LABEL, DataSet, make_dataset
from nevis_stream.datasets.decoding import open_image
from nevis_stream.datasets.images import ArrayImages
from nevis_stream.errors import BadInput, look_up

# Import name: the name to install, and the version whose files were checked.
CARRIERS = {
    "skimage": ("scikit-image", "0.26.0"),
    "sklearn": ("scikit-learn", "1.9.1"),
    "matplotlib": ("matplotlib", "3.11.2"),
}

FONT_FOLDER = "mpl-data/fonts/ttf"

IMAGES = {
    "astronaut": ("skimage", "data/astronaut.png"),
    "brick": ("skimage", "data/brick.png"),
    "chelsea": ("skimage", "data/chelsea.png"),
    "china": ("sklearn", "datasets/images/china.jpg"),
    "coffee": ("skimage", "data/coffee.png"),
    "coins": ("skimage", "data/coins.png"),
    "flower": ("sklearn", "datasets/images/flower.jpg"),
    "grass": ("skimage", "data/grass.png"),
    "gravel": ("skimage", "data/gravel.png"),
    "hopper": ("matplotlib", "mpl-data/sample_data/grace_hopper.jpg"),
    "hubble": ("skimage", "data/hubble_deep_field.jpg"),
    "ihc": ("skimage", "data/ihc.png"),
    "moon": ("skimage", "data/moon.png"),
    "motorcycle": ("skimage", "data/motorcycle_left.png"),
    "page": ("skimage", "data/page.png"),
    "retina": ("skimage", "data/retina.jpg"),
    "rocket": ("skimage", "data/rocket.jpg"),
    "text": ("skimage", "data/text.png"),
}


def find(package: str, *files: str) -> Path:
    """Returns the path of the first of `files` that the package carries.

    Args:
      package: import name, one of `CARRIERS`.
      files: paths inside the package's folder: the file, then its names in other versions.

    Raises:
      BadInput: the package is not installed, or carries none of the files.
    """
    distribution, version = CARRIERS[package]
    mend = f"{distribution} {version} carries it: pip install '{distribution}=={version}'."
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise BadInput(
            f"{distribution} is not installed, but its file {files[0]} is needed. {mend}"
        )
    folder = Path(spec.submodule_search_locations[0])
    for file in files:
        if (folder / file).is_file():
            return folder / file
    raise BadInput(
        f"the installed {distribution} has no file {' or '.join(files)} (looked in {folder}). "
        f"{mend}"
    )


def read_image(name: str, grey: bool = False, shrink: int = 1) -> np.ndarray:
    """Reads one of the packages' images.

    Args:
      name: one of `IMAGES`.
      grey: return luminance instead of RGB.
      shrink: integer factor; every shrink x shrink block of pixels becomes its mean.

    Returns:
      uint8[height, width, 3], or uint8[height, width] if grey.

    Raises:
      BadInput: the name is not known, the file is missing or cannot be decoded.
    """
    path = find(*look_up(IMAGES, "packaged image", name))
    try:
        opened = open_image(path, name).convert("L" if grey else "RGB")
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error}). Reinstall the package.") from error
    return np.asarray(opened.reduce(shrink) if shrink > 1 else opened)


def build_digits() -> DataSet:
    """pico_digits: handwritten digits; part "all", uint8[1797, 8, 8], 10 classes.

    Real: all 1,797 images of scikit-learn's digits file, a copy of the test part of UCI's "Optical
    recognition of handwritten digits" (Alpaydin and Kaynak, 1998; NIST preprocessing; 13 writers).
    Levels 0..16 become 0..255. The file does not name the writers, so there is one part, "all",
    which is divided by sample: the same writer is in train and in test.
    """
    path = find("sklearn", "datasets/data/digits.csv.gz")
    table = np.loadtxt(path, delimiter=",", dtype=np.int64)
    pixels = ((table[:, :64] * 255 + 8) // 16).astype(np.uint8).reshape(-1, 8, 8)
    parts = {"all": (ArrayImages(pixels, str(path)), table[:, 64])}
    return make_dataset("pico_digits", SINGLE_LABEL, parts, 10)


FACES, TRAIN_FACES = 100, 70


def build_faces() -> DataSet:
    """pico_faces: is it a face? uint8[140, 25, 25] train, uint8[60, 25, 25] test, 2 classes (0 no
    face, 1 face).

    Real: scikit-image's `lfw_subset`, crops from Labeled Faces in the Wild (Huang et al.); the
    file's first 100 are faces, the other 100 are pieces of background. The first 70 of each half
    are train, the last 30 test; the file does not name the people, so one person may be in both.
    The faces are of identifiable people.
    """
    # scikit-image after 0.26 keeps the same array in a compressed file.
    path = find("skimage", "data/lfw_subset.npy", "data/lfw_subset.npz")
    crops = np.load(path)
    if not isinstance(crops, np.ndarray):
        crops = crops[crops.files[0]]
    pixels = np.rint(crops * 255).astype(np.uint8)
    is_face = (np.arange(len(pixels)) < FACES).astype(np.int32)
    in_train = np.arange(len(pixels)) % FACES < TRAIN_FACES
    parts = {
        name: (ArrayImages(pixels[chosen], str(path)), is_face[chosen])
        for name, chosen in (("train", in_train), ("test", ~in_train))
    }
    return make_dataset("pico_faces", SINGLE_LABEL, parts, 2)
