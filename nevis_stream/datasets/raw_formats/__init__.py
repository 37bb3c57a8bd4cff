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
    "predicates": matlab.read_predicates,
    "regions": matlab.read_regions,
    "imagenet_validation": matlab.read_imagenet_validation,
    "idx": pixels.read_idx_images,
    "cifar": pixels.read_cifar,
    "stl": pixels.read_stl,
    "gnt": pixels.read_gnt,
    "norb": pixels.read_norb_images,
    "hdf5": pixels.read_hdf5,
    "coco": annotations.read_coco,
    "companion": paths.read_companions,
    "score_list": paths.read_score_list,
    "poses": paths.read_poses,
    "mat_lists": matlab.read_mat_lists,
    "mat_records": matlab.read_mat_records,
    "mat_counts": matlab.read_mat_counts,
    "mat_arrays": matlab.read_mat_arrays,
    "pixel_rows": pixels.read_pixel_rows,
    "libsvm": pixels.read_libsvm,
    "paths": paths.read_paths,
    "table": table.read_tables,
    "voc_objects": annotations.read_voc_objects,
    "voc_lists": annotations.read_voc_lists,
    "voc_actions": annotations.read_voc_actions,
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
