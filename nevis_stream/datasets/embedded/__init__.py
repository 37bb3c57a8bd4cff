"""Data sets made only from images that installed packages carry: nothing is ever downloaded.

`packaged` finds the images and has the data sets that are whole files of them, `patches` those that
are cut from them, `rendered` those that are drawn. A new data set is a function that returns it,
its name here and its rows in the catalogue.
"""

from collections.abc import Callable, Mapping

from nevis_stream.datasets.dataset import DataSet
from nevis_stream.datasets.embedded import packaged, patches, rendered

DATASETS: Mapping[str, Callable[[], DataSet]] = {
    "pico_coins": rendered.build_coins,
    "pico_digits": packaged.build_digits,
    "pico_faces": packaged.build_faces,
    "pico_glyphs": rendered.build_glyphs,
    "pico_mosaic": patches.build_mosaic,
    "pico_scenes": patches.build_scenes,
    "pico_shapes": rendered.build_shapes,
    "pico_textures": patches.build_textures,
    "pico_tissue": patches.build_tissue,
}
"""By name, as in the catalogue's `embedded:NAME`."""
