"""What is saved so that a killed process can go on: checkpoints, trees of arrays and JSON scalars
with checksums and without pickle; and the files of an unfinished train event.

A checkpoint is a directory that appears in one rename. It has a safetensors file for each tree, and
`manifest.json` with the trees' structures, the files' sha256, a small record, and the manifest's
own sha256.

An unfinished event has its finished trials, and positions inside the others. Trees of any
structure, such as the states of optax, are saved there as their leaves.
"""

import functools
import hashlib
import json
import secrets
import shutil
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import safetensors
import safetensors.numpy

from nevis_stream.errors import BadInput, DamagedCheckpoint, LearnerFault, RunWarning
from nevis_stream.storage import TEMPORARY_PREFIX, remove_leftovers, write_directory, write_file
from nevis_stream.storage.reading import LARGEST_ARRAYS, read_bytes, read_json

SCHEMA = 1
Tree = Any
"""A dict with string keys or a list of trees, a numpy or JAX array, or a str, int, float, bool or
None.
"""

_ARRAY = "__array__"
_STRUCTURE_ERRORS = (
    *(safetensors.SafetensorError, KeyError, TypeError, ValueError, AttributeError),
    *(RecursionError, MemoryError),
)


def to_host(tree: Tree, name: str = "state", copy: bool = False) -> Tree:
    """Returns a tree as it is saved and loaded: arrays as numpy, tuples as lists.

    Args:
      tree: what is saved.
      name: of the tree, for messages.
      copy: whether arrays are copied, as they are when they are read from disk.

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
        what = type(node).__name__
        if hasattr(node, "__array__") and hasattr(node, "dtype"):
            array = np.asarray(node)
            if not isinstance(node, np.ma.MaskedArray):  # whose mask would be lost
                if _is_kept(array.dtype):
                    return np.array(array) if copy else array
                what = f"an array of {array.dtype}"
        raise BadInput(
            f"{name}{place}: {what} cannot be saved; valid: dict, list, arrays of real numbers,"
            " str, int, float, bool, None. Save the real and the imaginary part of complex numbers,"
            " and a mask, as arrays of their own."
        )

    return convert(tree, "")


def _split(tree: Tree) -> tuple[Tree, dict[str, np.ndarray]]:
    """Separates a host tree into its JSON structure and its arrays by name."""
    arrays: dict[str, np.ndarray] = {}

    def visit(node, place):
        if isinstance(node, np.ndarray):
            # bfloat16 and similar types, which safetensors' numpy side cannot read back
            if hasattr(ml_dtypes, node.dtype.name):
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
            return array.view(_find_dtype(structure["dtype"])) if "dtype" in structure else array
        return {key: _join(value, arrays) for key, value in structure.items()}
    if isinstance(structure, list):
        return [_join(value, arrays) for value in structure]
    return structure


def _find_dtype(name: str) -> np.dtype:
    """Returns one of the types that `_split` names."""
    if not isinstance(dtype := getattr(ml_dtypes, name), type) or not issubclass(dtype, np.generic):
        raise TypeError(f"{name!r} is no type of numbers")
    return np.dtype(dtype)


@functools.cache
def _is_kept(dtype: np.dtype) -> bool:
    """Returns whether arrays of a type are read as they were saved."""
    structure, arrays = _split(np.empty(0, dtype))
    try:
        read = _join(structure, safetensors.numpy.load(safetensors.numpy.save(arrays)))
    except _STRUCTURE_ERRORS:
        return False
    return read.dtype.name == dtype.name


def _compute_digest(body: Mapping[str, Any]) -> str:
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
    manifest = json.dumps(body | {"sha256": _compute_digest(body)}, sort_keys=True)
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
        if sha256 != _compute_digest(body):
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
        except _STRUCTURE_ERRORS as error:  # of somebody else's program, with right checksums
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


def flatten_leaves(tree: Any, like: Any) -> list[Any]:
    """Returns the leaves of a tree as they are saved, JAX keys as their data.

    Raises:
      LearnerFault: its structure is another one than that of `like`.
    """
    import jax

    found, structure = jax.tree.flatten(tree)
    if structure != jax.tree.structure(like):
        raise LearnerFault(
            f"ctx.checkpoint: the tree is {structure}, but ctx.restore was called with like ="
            f" {jax.tree.structure(like)}."
        )
    return [jax.random.key_data(leaf) if _is_key(leaf) else leaf for leaf in found]


def rebuild(tree: Any, like: Any) -> Any:
    """Returns a tree of the structure of `like` with the leaves of `tree`, as `flatten_leaves`
    saved them.

    Raises:
      LearnerFault: their number, a shape or a dtype differs.
    """
    import jax

    found, (wanted, structure) = jax.tree.leaves(tree), jax.tree.flatten(like)
    if len(found) != len(wanted):
        raise LearnerFault(
            f"ctx.restore: {len(found)} leaves were saved, but like has {len(wanted)}. Was the"
            " learner changed since?"
        )
    return jax.tree.unflatten(structure, map(_match_leaf, found, wanted))


def _match_leaf(leaf: Any, wanted: Any) -> Any:
    import jax

    if _is_key(wanted):
        return jax.random.wrap_key_data(leaf, impl=jax.random.key_impl(wanted))
    shapes = [getattr(each, "shape", None) for each in (leaf, wanted)]
    dtypes = [getattr(each, "dtype", type(each)) for each in (leaf, wanted)]
    if shapes[0] != shapes[1] or dtypes[0] != dtypes[1]:
        raise LearnerFault(
            f"ctx.restore: {dtypes[0]}{list(shapes[0] or ())} was saved, but like has"
            f" {dtypes[1]}{list(shapes[1] or ())} in its place. Was the learner changed since?"
        )
    return leaf


def _is_key(leaf: Any) -> bool:
    """Whether it is an array of JAX keys, whose dtype NumPy does not have."""
    return not hasattr(getattr(leaf, "dtype", np.dtype(int)), "kind")


_KEPT_POSITIONS = 2


class EventWorkspace:
    """Saved trials and positions of one event, needed until its record is in the ledger.

    Args:
      path: the directory, which the first save creates.
      seconds: minimum time between two saved positions; 0 saves every one that is offered.
    """

    def __init__(self, path: Path, seconds: float):
        self._path = path
        self._seconds = seconds
        self._begun = time.monotonic()
        self._last: dict[int | None, float] = {}
        self._mark: Path | None = None
        if path.exists():
            remove_leftovers(path)

    def load_finished(self, trial: int) -> tuple[Tree, dict] | None:
        """Returns a finished trial's result and FLOPs, or None if it must be run."""
        path = self._path / f"trial-{trial:03d}"
        return self._read(path, "it is run again") if path.exists() else None

    def finish(self, trial: int, result: Tree, counts: dict) -> None:
        """Saves a finished trial's result and FLOPs and drops its positions."""
        write(self._path / f"trial-{trial:03d}", {"result": result}, {"flops": counts})
        for _, path in self._positions(trial):
            shutil.rmtree(path, ignore_errors=True)

    def is_due(self, trial: int | None) -> bool:
        """Whether enough time has passed to save a position. Time affects only what is saved, never
        what is computed.
        """
        return time.monotonic() - self._last.get(trial, self._begun) >= self._seconds

    def save(self, trial: int | None, step: int, tree: Tree, counts: dict) -> None:
        """Saves a position, keeping the one before it."""
        path = self._path / f"{_make_position_prefix(trial)}{step:09d}"
        write(path, {"result": tree}, {"flops": counts})
        for _, old in self._positions(trial)[:-_KEPT_POSITIONS]:
            shutil.rmtree(old, ignore_errors=True)
        self._last[trial] = time.monotonic()

    def restore(self, trial: int | None) -> tuple[int, Tree, dict] | None:
        """Returns step, tree and FLOPs of the last undamaged position of a trial, or None."""
        for step, path in reversed(self._positions(trial)):
            read = self._read(path, "the position before it is used")
            if read is not None:
                return step, *read
            shutil.rmtree(path, ignore_errors=True)
        return None

    def share(self) -> "SharedPositions":
        """Returns the part that other processes, on any machine, may use; it can be pickled."""
        if self._mark is None:
            self._mark = self._path.absolute() / f"{TEMPORARY_PREFIX}mark-{secrets.token_hex(8)}"
            write_file(self._mark, b"")
        return SharedPositions(self._mark, self._seconds)

    def remove(self) -> None:
        """Deletes the whole directory."""
        shutil.rmtree(self._path, ignore_errors=True)

    def _read(self, path: Path, consequence: str) -> tuple[Tree, dict] | None:
        try:
            saved = Checkpoint(path)
            return saved.load("result"), saved.record["flops"]
        except (DamagedCheckpoint, KeyError) as error:
            warnings.warn(
                f"{path}: cannot be used ({error}). {consequence[0].upper()}{consequence[1:]}.",
                RunWarning,
                stacklevel=2,
            )
            return None

    def _positions(self, trial: int | None) -> list[tuple[int, Path]]:
        prefix = _make_position_prefix(trial)
        paths = self._path.glob(f"{prefix}*")
        steps = [(path.name.removeprefix(prefix), path) for path in paths]
        return sorted((int(step), path) for step, path in steps if step.isdecimal())


class SharedPositions(EventWorkspace):
    """Positions of trials in other processes, for those that can access the run directory.

    The process of the run keeps the results. It deletes the mark at the end of the event; after a
    kill the next start deletes it. From then on a process that seemed lost but still works saves
    nothing.

    Args:
      mark: a file in the event's directory; a process that finds it is on the same file system.
      seconds: minimum time between two saved positions.
    """

    def __init__(self, mark: Path, seconds: float):
        self._path, self._mark, self._seconds = mark.parent, mark, seconds
        self._begun, self._last = time.monotonic(), {}

    def __reduce__(self):
        return SharedPositions, (self._mark, self._seconds)  # a clock is its machine's own

    def load_finished(self, trial: int) -> None:
        """Returns None: the process of the run has already looked."""

    def finish(self, trial: int, result: Tree, counts: dict) -> None:
        """Does nothing: the result goes to the process of the run."""

    def is_due(self, trial: int | None) -> bool:
        """Whether enough time has passed to save a position, and the run still needs it."""
        return super().is_due(trial) and self._mark.exists()

    def restore(self, trial: int | None) -> tuple[int, Tree, dict] | None:
        """Returns step, tree and FLOPs of the last undamaged position of a trial, or None."""
        return super().restore(trial) if self._mark.exists() else None


def _make_position_prefix(trial: int | None) -> str:
    return "event.step-" if trial is None else f"trial-{trial:03d}.step-"
