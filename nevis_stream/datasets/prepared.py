"""Prepared data: where they are, and how they are read and verified.

Reading needs neither TFDS nor the original files. Each data set is one directory,
`ROOT/ORIGIN/DATASET_ID/VERSION`:

| file                          | content                                                                       |
|-------------------------------|-------------------------------------------------------------------------------|
| `prepared.json`               | facts: sources, counts, duplicates, fingerprint, sha256 of every other file   |
| `SPLIT.safetensors`           | labels, sizes, source part and index, hashes of the samples of a split, in stored order |
| `*.array_record-*`, `dataset_info.json`, `features.json` | the images, in the format of `tfds.builder_from_directory` |
| `SPLIT.names.json`            | names of the images' files, in the same order, where they have any            |
| `SPLIT.npy`                   | with `--store=raw`, instead: the images as uint8[n, h, w(, 3)]                |

ORIGIN is `published` (prepared from the published files) or `local` (imported from the user's file).
"""  # noqa: E501

import functools
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from nevis_stream import catalogue
from nevis_stream.catalogue import find_data_root, find_derived_directory, find_shared_directory
from nevis_stream.datasets import reading
from nevis_stream.datasets.dataset import DataSet, Samples
from nevis_stream.datasets.prepared_images import (
    PreparedImages,
    RawImages,
    RecordImages,
    advise_preparing,
)
from nevis_stream.datasets.reading import Reading
from nevis_stream.errors import BadInput
from nevis_stream.storage import recover
from nevis_stream.storage.reading import open_file, read_json
from nevis_stream.vocabulary import SPLITS

# whether a data set can be used on this machine
READY = "ready"
DOWNLOADABLE = "downloadable"
DOWNLOAD_YOURSELF = "to download yourself"
ADDRESS_UNKNOWN = "address unknown"
FILE_MISSING = "file missing"
OUTDATED = "outdated"
CLASSES_MISSING = "classes missing"
MEANINGS = {
    DOWNLOADABLE: "`prepare` downloads it.",
    DOWNLOAD_YOURSELF: "its site asks for a registration, an account or a browser, so `prepare`"
    " cannot download it. Download its files, then pass their folder to `prepare` with"
    " --from=FOLDER. `prepare`, and the column `advice` of --format=csv, say which files and"
    " where they are.",
    ADDRESS_UNKNOWN: "no address of its files is known; if you have them, use --from=FOLDER.",
    FILE_MISSING: "its file is not on this machine.",
    OUTDATED: "an earlier version read its file otherwise than this one does.",
    CLASSES_MISSING: "the imported file has fewer classes than the task needs.",
}
"""What the states of a data set that is not ready mean."""


ORIGINS = ("published", "local")
ARRAY_RECORD, RAW = "array_record", "raw"
VERSION = "1.0.0"
ABOUT = "prepared.json"
NAMES = ".names.json"
_CHANGED = "its content has changed since it was prepared"


def find_directory(dataset_id: str, origin: str) -> Path:
    """Returns the directory of a prepared data set; it need not exist."""
    return find_data_root() / origin / dataset_id / VERSION


def find_alike(name: str, others: Iterable[str]) -> list[str]:
    """Returns the names that differ from a name in case only: a drive may not tell them apart."""
    return [other for other in others if other != name and other.casefold() == name.casefold()]


def is_ready(dataset_id: str, origin: str) -> bool:
    """Returns whether the data set has been prepared.

    A copy that a killed preparation moved away is restored first.
    """
    folder = find_directory(dataset_id, origin)
    if not folder.exists():
        recover(folder)
    return (folder / ABOUT).is_file()


def list_prepared() -> list[tuple[str, str]]:
    """Returns (dataset_id, origin) of every prepared data set."""
    folders = [path for origin in ORIGINS for path in (find_data_root() / origin).glob("*")]
    return sorted(
        (path.name, path.parent.name) for path in folders if is_ready(path.name, path.parent.name)
    )


def read_about(dataset_id: str, origin: str) -> dict[str, Any]:
    """Returns the content of prepared.json.

    Raises:
      BadInput: the file is missing, cannot be read, or has changed since it was written.
    """
    path = find_directory(dataset_id, origin) / ABOUT
    try:
        facts = read_json(path)
        if not isinstance(facts, dict):
            raise ValueError("not a JSON object")
        problem = "" if _is_sealed(facts) else _CHANGED
        if (name := facts.get("dataset_id", dataset_id)) in find_alike(dataset_id, [name]):
            problem = f"is of {name!r}, since the drive ignores case"
    except (OSError, ValueError) as error:
        problem = f"cannot be read ({error})"
    if problem:
        raise BadInput(f"{path}: {problem}. {advise_preparing(path)}")
    return facts


class Ids(Sequence):
    """Sample ids, `dataset_id/source_part/index`, each made when it is read."""

    def __init__(self, dataset_id: str, parts: Sequence[str], part: np.ndarray, index: np.ndarray):
        self._dataset_id, self._parts, self._part, self._index = dataset_id, parts, part, index

    def __len__(self) -> int:
        return len(self._part)

    def __getitem__(self, position):
        return f"{self._dataset_id}/{self._parts[self._part[position]]}/{self._index[position]}"


class Names(Sequence):
    """n names of images' files, read from a file of the preparation when the first is needed."""

    def __init__(self, path: Path, count: int):
        self._path, self._count = path, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, position):
        return self._names[position]

    @functools.cached_property
    def _names(self) -> list[str]:
        try:
            names = read_json(self._path)
            if len(names) == self._count:
                return names
            problem = f"{len(names)} names of {self._count} images"
        except (OSError, ValueError) as error:
            problem = str(error)
        raise BadInput(f"{self._path}: cannot be read ({problem}). {advise_preparing(self._path)}")


def suggest_preparing(dataset_id: str, origin: str) -> str:
    """Returns the command that prepares a data set again if an earlier version has read its files
    otherwise than this one does; else nothing.

    Earlier versions lost the names in folders and zips that people import, and what was transparent
    or turned in their images. Arrays, files in the layouts of the catalogue and the shared zips
    (compared by their pixels and labels) they read alike, but for images that are turned or
    transparent: such a stored image is refused when it is read (`RecordImages`).
    """
    facts = read_about(dataset_id, origin)
    if facts.get("reading", {}).get("version", 0) >= reading.VERSION or origin == "published":
        return ""
    (source, *_) = facts.get("sources") or [{}]
    if not (source.get("folder") or str(source.get("file", "")).endswith(".zip")):
        return ""
    if _is_shared_file(dataset_id, source):
        return ""
    if dataset_id in catalogue.read_shared_files():
        return f"python -m launch.data prepare --task={dataset_id}"
    new = dataset_id not in catalogue.read_datasets()
    year = f" --year={facts.get('year')} --domain={facts.get('domain')}" if new else ""
    return f"python -m launch.data import {source['file']} --task={dataset_id}{year}"


def _is_shared_file(dataset_id: str, source: Mapping[str, Any]) -> bool:
    """Returns whether a data set was prepared from the shared file that is on this machine."""
    row = catalogue.read_shared_files().get(dataset_id)
    path = find_shared_directory() / row["file"] if row else None
    return (
        path is not None
        and path.is_file()
        and path.stat().st_size == source.get("bytes")
        and hash_file(path) == source.get("sha256")
    )


def load(dataset_id: str, origin: str) -> DataSet:
    """Returns a prepared data set, whose parts are the four splits; images are read on access.

    Raises:
      BadInput: a file is missing or cannot be read, or an earlier version read it otherwise.
    """
    folder, facts = find_directory(dataset_id, origin), read_about(dataset_id, origin)
    if command := suggest_preparing(dataset_id, origin):
        raise BadInput(
            f"data set {dataset_id!r} was imported by an earlier version, which read such files"
            f" otherwise: {command}"
        )
    older = facts.get("reading", {}).get("version", 0) < reading.VERSION
    remedy = f"python -m launch.data prepare --task={dataset_id} --force" if older else ""
    parts = {}
    for split in SPLITS:
        tensors = read_tensors(dataset_id, origin, split)
        ids = Ids(dataset_id, facts["parts"], tensors["part"], tensors["index"])
        key = f"{dataset_id}-{facts['fingerprint'][:16]}-{split}"
        if facts["format"] == RAW:
            source = RawImages(folder / f"{split}.npy")
        else:
            source = RecordImages(folder, split, remedy)
            key += "-compared" * bool(remedy)  # not the arrays that an earlier version derived
        images = PreparedImages(source, tensors, key, find_derived_directory())
        names: Sequence[str] = ()
        if f"{split}{NAMES}" in facts["files"]:
            names = Names(folder / f"{split}{NAMES}", len(ids))
        parts[split] = Samples(images, tensors["labels"], ids, names)
    classes = tuple(facts.get("class_names", ()))
    known = facts.get("reading")
    return DataSet(
        dataset_id,
        facts["kind"],
        facts["num_classes"],
        parts,
        facts["fingerprint"],
        origin == "local",
        classes if len(classes) == facts["num_classes"] else (),
        Reading.from_json(known) if known else None,
    )


def read_tensors(dataset_id: str, origin: str, split: str) -> dict[str, np.ndarray]:
    """Returns the labels, sizes, ids and hashes of the samples of a split.

    Returns:
      labels int32[n] or uint8[n, classes], sizes int32[n, 2], part uint8[n] and index int32[n] (of
      the sample ids), sha256 uint8[n, 32] and dhash uint64[n] of the decoded pixels.

    Raises:
      BadInput: the file cannot be read.
    """
    path = find_directory(dataset_id, origin) / f"{split}.safetensors"
    try:
        if hash_file(path) != read_about(dataset_id, origin)["files"].get(path.name):
            raise BadInput(f"{path}: {_CHANGED}. {advise_preparing(path)}")
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise BadInput(f"{path}: cannot be read ({error}). {advise_preparing(path)}") from None


def verify(dataset_id: str, origin: str) -> list[str]:
    """Compares every file of a prepared data set with its sha256; returns one line per problem."""
    folder = find_directory(dataset_id, origin)
    try:
        facts = read_about(dataset_id, origin)
        recorded = facts["files"]
    except (BadInput, KeyError) as error:
        return [str(error)]
    problems = []
    for name, digest in recorded.items():
        path = folder / name
        if not path.is_file():
            problems.append(f"{path}: is missing")
        elif hash_file(path) != digest:
            problems.append(f"{path}: {_CHANGED}")
    extra = sorted(path for path in folder.iterdir() if path.name not in {*recorded, ABOUT})
    return problems + [f"{path}: was not written by the preparation" for path in extra]


def _is_sealed(facts: dict[str, Any]) -> bool:
    rest = {name: value for name, value in facts.items() if name != "seal"}
    return facts.get("seal") == seal(rest)


def seal(facts: dict[str, Any]) -> str:
    """Returns the sha256 of the content of prepared.json without its key `seal`."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def hash_file(path: Path) -> str:
    """Returns the sha256 of a file, 64 hex digits."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
