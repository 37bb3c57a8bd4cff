"""Scores in files of their own: one file for each image, a list of scores, poses."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from nevis_stream.datasets.images import SourceImage
from nevis_stream.datasets.raw_formats.tree import Example, FileTree, fill
from nevis_stream.errors import BadInput
from nevis_stream.storage.reading import read_bytes


def companion(
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
            _raw(path, raw) if raw else SourceImage(path),
            _MEASURES[measure](companion_path),
        )


def _raw(path: Path, shape: Sequence[int]) -> SourceImage:
    def pixels() -> np.ndarray:
        data = np.fromfile(path, np.uint8)
        if data.size != shape[0] * shape[1]:
            raise BadInput(f"{path}: has {data.size} bytes; {shape[0]}×{shape[1]} are expected.")
        return data.reshape(shape)

    return SourceImage(pixels, str(path))


def _text_lines(path: Path) -> list[str]:
    return read_bytes(path).decode(errors="replace").split("\n")


def _lines(path: Path) -> float:
    return float(sum(bool(line.strip()) for line in _text_lines(path)))


def _definite(path: Path) -> int:
    firsts = [line.split()[0] for line in _text_lines(path) if line.strip()]
    return int(any(float(word) == 1 for word in firsts))


def _locations(path: Path) -> float:
    from scipy.io import loadmat

    info = loadmat(path)["image_info"]
    while info.dtype == object:
        info = info.flat[0]
    return float(len(info["location"].flat[0]))


_MEASURES = {"lines": _lines, "definite": _definite, "locations": _locations}


def score_list(tree: FileTree, *, pattern: str, scores: str) -> Iterator[Example]:
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


def poses(
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
      subjects: part by subject; the others go to train.
    """
    matches = [match for name in tree.names if (match := re.fullmatch(pattern, name))]
    angles = np.asarray(
        [_angles(tree.path(fill(companion, match.groupdict()))) for match in matches]
    )
    labels = [
        equal_mass_bins(column, bins) + bins * number for number, column in enumerate(angles.T)
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


def _angles(path: Path) -> tuple[float, float, float]:
    """Roll, pitch and yaw in radians of a rotation R = Rz Ry Rx."""
    lines = [line.split() for line in read_bytes(path).decode().split("\n") if line.strip()]
    r = np.asarray(lines[:3], float)
    return (
        float(np.arctan2(r[1, 0], r[0, 0])),
        float(np.arctan2(r[2, 1], r[2, 2])),
        float(np.arctan2(-r[2, 0], np.hypot(r[2, 1], r[2, 2]))),
    )


def equal_mass_bins(scores: np.ndarray, bins: int) -> np.ndarray:
    """Returns int[n] in 0..bins-1: the quantile of each score; equal scores share a bin."""
    edges = np.quantile(scores, np.arange(1, bins) / bins)
    return np.searchsorted(edges, scores, side="right")
