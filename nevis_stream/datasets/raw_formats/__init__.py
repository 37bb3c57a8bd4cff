"""Readers of raw layouts: from a folder of unpacked files to examples.

`READERS` has functions by name: `read(tree, **options) -> Iterator[Example]`. `tree` is the folder;
the options are in `catalogue/layouts.toml`. A reader yields class ids as integers, class names as
strings (they are sorted into ids later, numbers by value), scores as floats (cut into bins later)
and, for multi label, sets of these.

| module          | raw layout                                                             |
|-----------------|------------------------------------------------------------------------|
| paths           | class, part or number of an image are in its path                      |
| table           | a text table names images and labels: lists, csv, tsv                 |
| companion       | a file next to each image has its score;  lists of scores; poses      |
| matlab          | .mat files: lists of ids, records, counts, arrays                       |
| voc             | PASCAL VOC: annotations in xml, lists by class, crops of people         |
| coco            | COCO json                                                               |
| binary          | idx, cifar, stl, gnt, norb, hdf5: pixels in formats of their own        |
| numbers         | pixels as text: rows of numbers, libsvm                                 |
| attributes      | attributes of classes; regions of images; ImageNet's validation part  |
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from nevis_stream.datasets.raw_formats import (
    attributes,
    binary,
    coco,
    companion,
    matlab,
    numbers,
    paths,
    table,
    voc,
)
from nevis_stream.datasets.raw_formats.tree import Example, FileTree
from nevis_stream.errors import BadInput, unknown

__all__ = ["READERS", "Example", "FileTree", "read"]


READERS: Mapping[str, Callable[..., Iterator[Example]]] = {
    "predicates": attributes.predicates,
    "regions": attributes.regions,
    "imagenet_validation": attributes.imagenet_validation,
    "idx": binary.idx,
    "cifar": binary.cifar,
    "stl": binary.stl,
    "gnt": binary.gnt,
    "norb": binary.norb,
    "hdf5": binary.hdf5,
    "coco": coco.coco,
    "companion": companion.companion,
    "score_list": companion.score_list,
    "poses": companion.poses,
    "mat_lists": matlab.mat_lists,
    "mat_records": matlab.mat_records,
    "mat_counts": matlab.mat_counts,
    "mat_arrays": matlab.mat_arrays,
    "pixel_rows": numbers.pixel_rows,
    "libsvm": numbers.libsvm,
    "paths": paths.paths,
    "table": table.table,
    "voc_objects": voc.voc_objects,
    "voc_lists": voc.voc_lists,
    "voc_actions": voc.voc_actions,
}


def read(tree: FileTree, layout: Mapping[str, Any]) -> list[Example]:
    """Reads a folder as a layout of `catalogue/layouts.toml` says.

    Returns:
      The examples by part and key; keys are unique in their part.

    Raises:
      BadInput: an unknown reader, a missing file, or files that are not as the layout says.
    """
    examples: list[Example] = []
    for options in layout["read"]:
        options = dict(options)
        name = options.pop("reader")
        if name not in READERS:
            raise BadInput(f"layouts.toml: {unknown('reader', name, READERS)}")
        before = len(examples)
        examples += READERS[name](tree, **options)
        if len(examples) == before:
            raise BadInput(
                f"{tree.root}: reader {name!r} found no image; check that this is the right"
                f" archive. {_describe(options)}"
            )
    return sorted(examples, key=lambda example: (example.part, example.key))


def _describe(options: Mapping[str, Any]) -> str:
    return "Expected: " + "; ".join(
        f"{key} = {value}" for key, value in options.items() if key in ("pattern", "image", "root")
    )
