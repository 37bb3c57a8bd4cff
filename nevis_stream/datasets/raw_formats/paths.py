"""Images whose path contains class, part and number, and tiles of such images.

The class is a folder or a part of the file's name.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.datasets.images import SourceImage
from nevis_stream.datasets.raw_formats.tree import Example, FileTree


def paths(
    tree: FileTree,
    *,
    pattern: str,
    part: str = "all",
    parts: Mapping[str, str] | None = None,
    parts_by_number: Mapping[str, Any] | None = None,
    parts_by_list: Mapping[str, Any] | None = None,
    aliases: Mapping[str, str] | None = None,
    skip: str | None = None,
    tiles: int = 0,
    slivers: bool = False,
) -> Iterator[Example]:
    """Reads every file whose path matches.

    Args:
      tree: the folder.
      pattern: regular expression for the whole path, with groups `label` and, where the path
        contains it, `part`.
      part: the part of all, where the path does not contain it.
      parts: part by what the group `part` holds; None takes it as it is.
      parts_by_number: for each part the numbers in the group `part` that go there; one part may be
        "rest".
      parts_by_list: {part, rest, group, members: {label: numbers}}: a published list of one part by
        class.
      aliases: label by what the group `label` holds, where it differs.
      skip: regular expression; paths in which it occurs are left out.
      tiles: cut every image into tiles × tiles pieces without overlap; 0 leaves it whole.
      slivers: with `tiles`, cut up to the right and lower edges, thin pieces included.
    """
    included, excluded = re.compile(pattern), re.compile(skip) if skip else None
    for name in tree.names:
        match = included.fullmatch(name)
        if match is None or (excluded and excluded.search(name)):
            continue
        groups = match.groupdict()
        label = (aliases or {}).get(groups["label"], groups["label"])
        source_part = part
        if parts_by_number:
            source_part = _by_number(int(groups["part"]), parts_by_number)
        elif parts_by_list:
            listed = parts_by_list["members"].get(label, ())
            source_part = (
                parts_by_list["part"]
                if int(groups[parts_by_list["group"]]) in listed
                else parts_by_list["rest"]
            )
        elif "part" in groups:
            source_part = (parts or {}).get(groups["part"], groups["part"])
        path = tree.root / name
        if not tiles:
            yield Example(source_part, name, SourceImage(path), label)
            continue
        for number, pixels in enumerate(_tiles(path, tiles, slivers)):
            tile = SourceImage(lambda pixels=pixels: pixels, f"{name}, tile {number}")
            yield Example(source_part, f"{name}#{number:02d}", tile, label)


def _by_number(number: int, parts: Mapping[str, Any]) -> str:
    rest = "test"
    for part, numbers in parts.items():
        if numbers == "rest":
            rest = part
        elif number in numbers:
            return part
    return rest


def _tiles(path: Path, tiles: int, slivers: bool) -> Sequence[np.ndarray]:
    pixels = np.asarray(SourceImage(path).open().convert("L"))
    height, width = pixels.shape[0] // tiles, pixels.shape[1] // tiles
    if slivers:
        rows, columns = range(0, pixels.shape[0], height), range(0, pixels.shape[1], width)
    else:
        rows, columns = range(0, tiles * height, height), range(0, tiles * width, width)
    return [pixels[top : top + height, left : left + width] for top in rows for left in columns]
