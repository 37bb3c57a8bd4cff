"""Checkpoints: trees of arrays and JSON scalars on disk, with checksums and without pickle.

A checkpoint is a directory that appears in one rename. It has a safetensors file for each tree, and
`manifest.json` with the trees' structures, the files' sha256, a small record, and the manifest's
own sha256.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy

from nevis_stream.errors import BadInput, DamagedCheckpoint
from nevis_stream.storage import write_directory
from nevis_stream.storage.reading import LARGEST_ARRAYS, read_bytes, read_json

SCHEMA = 1
Tree = Any
"""A dict with string keys or a list of trees, a numpy or JAX array, or a str, int, float, bool or
None.
"""

_ARRAY = "__array__"
_MISFITS = (
    *(safetensors.SafetensorError, KeyError, TypeError, ValueError, AttributeError),
    *(RecursionError, MemoryError),
)


def to_host(tree: Tree, name: str = "state") -> Tree:
    """Returns a tree as it is saved and loaded: arrays as numpy, tuples as lists.

    Args:
      tree: what is saved.
      name: of the tree, for messages.

    Raises:
      BadInput: a leaf that is neither an array nor a JSON scalar, or a namedtuple, which would be
        loaded as a list; the message gives its place.
    """

    def convert(node, place):
        if node is None or isinstance(node, (str, bool, int, float)):
            return node
        if isinstance(node, Mapping):
            wrong = [key for key in node if not isinstance(key, str) or key == _ARRAY]
            if wrong:
                raise BadInput(
                    f"{name}{place}: key {wrong[0]!r}; keys must be strings other than {_ARRAY!r}."
                )
            return {key: convert(value, f"{place}[{key!r}]") for key, value in node.items()}
        if hasattr(node, "_fields") and isinstance(node, tuple):
            raise BadInput(
                f"{name}{place}: {type(node).__name__} is a namedtuple, which would come back as a"
                " list. For ctx.checkpoint, ask for it before with ctx.restore(like=…), which gives"
                " its structure back; elsewhere save jax.tree.leaves(…) of it, and build it again"
                " with jax.tree.unflatten."
            )
        if isinstance(node, (list, tuple)):
            return [convert(value, f"{place}[{i}]") for i, value in enumerate(node)]
        if not hasattr(getattr(node, "dtype", np.dtype(int)), "kind"):
            raise BadInput(f"{name}{place}: save jax.random.key_data(…) of a JAX key, not the key.")
        if hasattr(node, "__array__") and hasattr(node, "dtype"):
            array = np.asarray(node)
            if array.dtype.kind not in "OUS":
                return array
        raise BadInput(
            f"{name}{place}: {type(node).__name__} cannot be saved; valid: dict, list, arrays of"
            " numbers, str, int, float, bool, None."
        )

    return convert(tree, "")


def _split(tree: Tree) -> tuple[Tree, dict[str, np.ndarray]]:
    """Separates a host tree into its JSON structure and its arrays by name."""
    arrays: dict[str, np.ndarray] = {}

    def visit(node, place):
        if isinstance(node, np.ndarray):
            # bfloat16 and similar types, which safetensors' numpy side cannot read back
            if node.dtype.kind == "V":
                arrays[place] = np.asarray(node, order="C").view(f"u{node.dtype.itemsize}")
                return {_ARRAY: place, "dtype": node.dtype.name}
            arrays[place] = np.asarray(node, order="C")
            return {_ARRAY: place}
        if isinstance(node, dict):
            return {key: visit(value, f"{place}/{key}") for key, value in node.items()}
        if isinstance(node, list):
            return [visit(value, f"{place}/{i}") for i, value in enumerate(node)]
        return node

    return visit(tree, ""), arrays


def _join(structure: Tree, arrays: Mapping[str, np.ndarray]) -> Tree:
    if isinstance(structure, dict):
        if _ARRAY in structure:
            array = arrays[structure[_ARRAY]]
            return array.view(_dtype(structure["dtype"])) if "dtype" in structure else array
        return {key: _join(value, arrays) for key, value in structure.items()}
    if isinstance(structure, list):
        return [_join(value, arrays) for value in structure]
    return structure


def _dtype(name: str) -> np.dtype:
    """Returns one of the types that `_split` names."""
    if not isinstance(dtype := getattr(ml_dtypes, name), type) or not issubclass(dtype, np.generic):
        raise TypeError(f"{name!r} is no type of numbers")
    return np.dtype(dtype)


def _digest(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def write(path: Path, trees: Mapping[str, Tree], record: Mapping[str, Any]) -> None:
    """Writes trees by name, and a JSON record, as the checkpoint directory `path`.

    Raises:
      BadInput: a tree cannot be saved.
      StorageFull: no space; nothing of this checkpoint remains, and no other file is changed.
    """
    files, described = {}, {}
    for name, tree in trees.items():
        structure, arrays = _split(to_host(tree, name))
        data = safetensors.numpy.save(arrays)
        files[f"{name}.safetensors"] = data
        described[name] = {"structure": structure, "sha256": hashlib.sha256(data).hexdigest()}
    body = {"schema": SCHEMA, "trees": described, "record": dict(record)}
    manifest = json.dumps(body | {"sha256": _digest(body)}, sort_keys=True)
    write_directory(path, files | {"manifest.json": manifest.encode()})


class Checkpoint:
    """A checkpoint on disk: its manifest is verified when it is opened, a tree when it is loaded.

    Args:
      path: the checkpoint's directory.

    Attributes:
      record: the JSON record given to `write`.

    Raises:
      DamagedCheckpoint: missing, truncated or altered; the message names the file.
    """

    def __init__(self, path: Path):
        self.path = path
        manifest = path / "manifest.json"
        try:
            body = read_json(manifest)
            sha256 = body.pop("sha256")
        except (OSError, ValueError, KeyError, AttributeError) as error:
            raise DamagedCheckpoint(f"{manifest}: missing or unreadable ({error}).") from None
        if sha256 != _digest(body):
            raise DamagedCheckpoint(f"{manifest}: its content does not match its checksum.")
        if not _is_manifest(body):
            raise DamagedCheckpoint(f"{manifest}: is not the manifest of a checkpoint.")
        self._trees = body["trees"]
        self.record: dict[str, Any] = body["record"]

    @property
    def names(self) -> list[str]:
        """Names of the trees."""
        return list(self._trees)

    def load(self, name: str) -> Tree:
        """Returns one tree, its arrays as numpy.

        Raises:
          DamagedCheckpoint: the file is missing, truncated or altered, or the manifest has no such
            tree, or another structure than the file.
        """
        file = self.path / f"{name}.safetensors"
        if name not in self._trees:
            raise DamagedCheckpoint(f"{self.path}: has no tree {name!r}.")
        try:
            data = read_bytes(file, LARGEST_ARRAYS)
        except OSError as error:
            raise DamagedCheckpoint(f"{file}: missing or unreadable ({error}).") from None
        if hashlib.sha256(data).hexdigest() != self._trees[name]["sha256"]:
            raise DamagedCheckpoint(f"{file}: its content does not match its checksum.")
        try:
            return _join(self._trees[name]["structure"], safetensors.numpy.load(data))
        except _MISFITS as error:  # of somebody else's program, with right checksums
            raise DamagedCheckpoint(
                f"{file}: its arrays are not those of the manifest ({type(error).__name__}:"
                f" {error})."
            ) from None


def _is_manifest(body: Mapping[str, Any]) -> bool:
    """Whether a JSON object has what `write` writes."""
    trees = body.get("trees")
    return (
        isinstance(body.get("record"), dict)
        and isinstance(trees, dict)
        and all(
            isinstance(each, dict) and {"structure", "sha256"} <= {*each} for each in trees.values()
        )
    )
