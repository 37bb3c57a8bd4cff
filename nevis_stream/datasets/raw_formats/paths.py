"""Images whose path contains class, part and number, and tiles of such images; and images whose
scores are in a file next to each, in a list, or follow from poses.

The class is a folder or a part of the file's name.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.datasets.files import Example, FileTree, fill
from nevis_stream.datasets.images import SourceImage
from nevis_stream.errors import BadInput
from nevis_stream.storage.reading import read_bytes


def read_paths(
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
      parts_by_number: for each part the numbers in the group `part` that go there; other numbers
        go to the part that has "rest" instead, or to test.
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
            source_part = _find_part(int(groups["part"]), parts_by_number)
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
        for number, pixels in enumerate(_cut_tiles(path, tiles, slivers)):
            tile = SourceImage(lambda pixels=pixels: pixels, f"{name}, tile {number}")
            yield Example(source_part, f"{name}#{number:02d}", tile, label)


def _find_part(number: int, parts: Mapping[str, Any]) -> str:
    rest = "test"
    for part, numbers in parts.items():
        if numbers == "rest":
            rest = part
        elif number in numbers:
            return part
    return rest


def _cut_tiles(path: Path, tiles: int, slivers: bool) -> Sequence[np.ndarray]:
    pixels = np.asarray(SourceImage(path).open().convert("L"))
    height, width = pixels.shape[0] // tiles, pixels.shape[1] // tiles
    if slivers:
        rows, columns = range(0, pixels.shape[0], height), range(0, pixels.shape[1], width)
    else:
        rows, columns = range(0, tiles * height, height), range(0, tiles * width, width)
    return [pixels[top : top + height, left : left + width] for top in rows for left in columns]


def read_companions(
    tree: FileTree,
    *,
    pattern: str,
    companion: str,
    measure: str,
    lists: Sequence[Mapping[str, str]] = (),
    raw: Sequence[int] = (),
) -> Iterator[Example]:
    """Reads images that each have a companion file.

    Args:
      tree: the folder.
      pattern: regular expression of the images' paths; its groups fill `companion`.
      companion: template of the companion's path.
      measure: "lines" (their number), "locations" (rows of the location array in an image_info
        .mat), or "definite" (class 1 where a line begins with 1, else 0).
      lists: {part, file}: names of images by part; without it the group `part`, else all.
      raw: height and width, where the images are raw bytes.
    """
    parts = {
        Path(name.strip()).stem: entry["part"]
        for entry in lists
        for name in tree.lines(entry["file"])
    }
    for name in tree.names:
        match = re.fullmatch(pattern, name)
        if match is None:
            continue
        part = parts.get(match["name"]) if lists else match.groupdict().get("part", "all")
        if part is None:
            continue
        companion_path = tree.path(fill(companion, match.groupdict()))
        path = tree.root / name
        yield Example(
            part,
            name,
            _read_raw(path, raw) if raw else SourceImage(path),
            _MEASURES[measure](companion_path),
        )


def _read_raw(path: Path, shape: Sequence[int]) -> SourceImage:
    def pixels() -> np.ndarray:
        data = np.fromfile(path, np.uint8)
        if data.size != shape[0] * shape[1]:
            raise BadInput(f"{path}: has {data.size} bytes; {shape[0]}×{shape[1]} are expected.")
        return data.reshape(shape)

    return SourceImage(pixels, str(path))


def _read_lines(path: Path) -> list[str]:
    return read_bytes(path).decode(errors="replace").split("\n")


def _count_lines(path: Path) -> float:
    return float(sum(bool(line.strip()) for line in _read_lines(path)))


def _is_definite(path: Path) -> int:
    firsts = [line.split()[0] for line in _read_lines(path) if line.strip()]
    return int(any(float(word) == 1 for word in firsts))


def _count_locations(path: Path) -> float:
    from scipy.io import loadmat

    info = loadmat(path)["image_info"]
    while info.dtype == object:
        info = info.flat[0]
    return float(len(info["location"].flat[0]))


_MEASURES = {"lines": _count_lines, "definite": _is_definite, "locations": _count_locations}


def read_score_list(tree: FileTree, *, pattern: str, scores: str) -> Iterator[Example]:
    """Reads images whose scores are in a list, one per line.

    The order is that of the numbers in the images' names.

    Args:
      tree: the folder.
      pattern: regular expression of the images' paths; all its groups are numbers.
      scores: the list.
    """
    matches = [match for name in tree.names if (match := re.fullmatch(pattern, name))]
    matches.sort(key=lambda match: tuple(int(number) for number in match.groups()))
    values = [float(line.split()[0]) for line in tree.lines(scores)]
    if len(values) != len(matches):
        raise BadInput(f"{tree.one(scores)}: {len(values)} scores for {len(matches)} images.")
    for match, value in zip(matches, values, strict=True):
        yield Example("all", match[0], SourceImage(tree.root / match[0]), value)


def read_poses(
    tree: FileTree,
    *,
    pattern: str,
    companion: str,
    bins: int,
    subjects: Mapping[str, Sequence[int]],
) -> Iterator[Example]:
    """Reads images with a pose file: rotation matrix in three lines, then a translation.

    The angles roll, pitch and yaw are each cut into equal-mass bins; label = bin + bins × number of
    the angle.

    Args:
      tree: the folder.
      pattern: regular expression of the images' paths, with the groups `subject` and `frame`.
      companion: template of the pose file's path.
      bins: for each angle.
      subjects: numbers of the subjects of each part; the others go to train.
    """
    matches = [match for name in tree.names if (match := re.fullmatch(pattern, name))]
    angles = np.asarray(
        [_read_angles(tree.path(fill(companion, match.groupdict()))) for match in matches]
    )
    labels = [
        divide_into_quantiles(column, bins) + bins * number
        for number, column in enumerate(angles.T)
    ]
    parts = {number: part for part, numbers in subjects.items() for number in numbers}
    for index, match in enumerate(matches):
        part = parts.get(int(match["subject"]), "train")
        yield Example(
            part,
            match[0],
            SourceImage(tree.root / match[0]),
            frozenset(int(label[index]) for label in labels),
        )


def _read_angles(path: Path) -> tuple[float, float, float]:
    """Roll, pitch and yaw in radians of a rotation R = Rz Ry Rx."""
    lines = [line.split() for line in read_bytes(path).decode().split("\n") if line.strip()]
    r = np.asarray(lines[:3], float)
    return (
        float(np.arctan2(r[1, 0], r[0, 0])),
        float(np.arctan2(r[2, 1], r[2, 2])),
        float(np.arctan2(-r[2, 0], np.hypot(r[2, 1], r[2, 2]))),
    )


def divide_into_quantiles(scores: np.ndarray, bins: int) -> np.ndarray:
    """Returns int[n] in 0..bins-1: the quantile of each score; equal scores share a bin."""
    edges = np.quantile(scores, np.arange(1, bins) / bins)
    return np.searchsorted(edges, scores, side="right")
