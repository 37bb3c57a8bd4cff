"""Readers of raw layouts: from a folder of unpacked files to examples.

`READERS` has functions by name: `read(tree, **options) -> Iterator[Example]`. `tree` is the folder;
the options are in `catalogue/layouts.toml`. A reader yields class ids as integers, class names as
strings (they are sorted into ids later, numbers by value), scores as floats (cut into bins later)
and, for multi label, sets of these.

| module          | raw layout                                                             |
|-----------------|------------------------------------------------------------------------|
| paths           | class, part or number of an image are in its path; a file next to each image has its score; lists of scores; poses |
| table           | a text table names images and labels: lists, csv, tsv                  |
| matlab          | .mat files: lists of ids, records, counts, arrays; attributes of classes; regions of images; ImageNet's validation part |
| annotations     | PASCAL VOC: xml, lists by class, crops of people; COCO json            |
| pixels          | idx, cifar, stl, gnt, norb, hdf5: formats of their own; as text: rows of numbers, libsvm |
"""  # noqa: E501

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from nevis_stream.datasets.files import Example, FileTree
from nevis_stream.datasets.raw_formats import annotations, matlab, paths, pixels, table
from nevis_stream.errors import BadInput, unknown

__all__ = ["READERS", "Example", "FileTree", "read"]


READERS: Mapping[str, Callable[..., Iterator[Example]]] = {
    "predicates": matlab.predicates,
    "regions": matlab.regions,
    "imagenet_validation": matlab.imagenet_validation,
    "idx": pixels.idx,
    "cifar": pixels.cifar,
    "stl": pixels.stl,
    "gnt": pixels.gnt,
    "norb": pixels.norb,
    "hdf5": pixels.hdf5,
    "coco": annotations.coco,
    "companion": paths.companion,
    "score_list": paths.score_list,
    "poses": paths.poses,
    "mat_lists": matlab.mat_lists,
    "mat_records": matlab.mat_records,
    "mat_counts": matlab.mat_counts,
    "mat_arrays": matlab.mat_arrays,
    "pixel_rows": pixels.pixel_rows,
    "libsvm": pixels.libsvm,
    "paths": paths.paths,
    "table": table.table,
    "voc_objects": annotations.voc_objects,
    "voc_lists": annotations.voc_lists,
    "voc_actions": annotations.voc_actions,
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
