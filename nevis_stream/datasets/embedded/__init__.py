"""Data sets made only from images that installed packages carry: nothing is ever downloaded.

Every module of `NAMES` is one data set: a `build()` that returns it, and a `VERSION` that is raised
when its samples change. The other modules are helpers: `sources` finds the images, `patches` cuts
them, `drawing` renders and encodes. A new data set is a new module, its name here and its rows in
the catalogue.
"""

import dataclasses
import importlib

from nevis_stream.datasets.dataset import DataSet
from nevis_stream.datasets.reading import silent
from nevis_stream.errors import BadInput, unknown

NAMES = (
    "pico_coins",
    "pico_digits",
    "pico_faces",
    "pico_glyphs",
    "pico_mosaic",
    "pico_scenes",
    "pico_shapes",
    "pico_textures",
    "pico_tissue",
)


def build(name: str) -> DataSet:
    """Builds one embedded data set; only its own module is imported.

    Args:
      name: one of `NAMES`, as in the catalogue's `embedded:NAME`.

    Returns:
      The data set, the same at every call.

    Raises:
      BadInput: the name is not known, or a package does not carry an image that is needed.
    """
    if name not in NAMES:
        raise BadInput(unknown("embedded data set", name, NAMES))
    with silent():
        dataset = importlib.import_module(f"{__name__}.{name}").build()
    return dataclasses.replace(dataset, reading=None)  # of no files
