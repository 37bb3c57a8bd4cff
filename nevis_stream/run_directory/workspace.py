"""Files of an unfinished train event: its finished trials, and positions inside the others.

Trees of any structure, such as the states of optax, are saved as their leaves.
"""

import secrets
import shutil
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.errors import DamagedCheckpoint, LearnerFault, RunWarning
from nevis_stream.storage import TEMPORARY_PREFIX, checkpoint, remove_leftovers, write_file
from nevis_stream.storage.checkpoint import Checkpoint, Tree
from nevis_stream.storage.study_record import Cell, StudyRecord


def leaves(tree: Any, like: Any) -> list[Any]:
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
    """Returns a tree of the structure of `like` with the leaves of `tree`, as `leaves` saved them.

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
    return jax.tree.unflatten(structure, map(_fitting, found, wanted))


def _fitting(leaf: Any, wanted: Any) -> Any:
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

    def finished(self, trial: int) -> tuple[Tree, dict] | None:
        """Returns a finished trial's result and FLOPs, or None if it must be run."""
        path = self._path / f"trial-{trial:03d}"
        return self._read(path, "it is run again") if path.exists() else None

    def finish(self, trial: int, result: Tree, counts: dict) -> None:
        """Saves a finished trial's result and FLOPs and drops its positions."""
        checkpoint.write(self._path / f"trial-{trial:03d}", {"result": result}, {"flops": counts})
        for _, path in self._positions(trial):
            shutil.rmtree(path, ignore_errors=True)

    def due(self, trial: int | None) -> bool:
        """Whether enough time has passed to save a position. Time affects only what is saved, never
        what is computed.
        """
        return time.monotonic() - self._last.get(trial, self._begun) >= self._seconds

    def save(self, trial: int | None, step: int, tree: Tree, counts: dict) -> None:
        """Saves a position, keeping the one before it."""
        path = self._path / f"{_position_prefix(trial)}{step:09d}"
        checkpoint.write(path, {"result": tree}, {"flops": counts})
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

    def shared(self) -> "SharedPositions":
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
        prefix = _position_prefix(trial)
        paths = self._path.glob(f"{prefix}*")
        steps = [(path.name.removeprefix(prefix), path) for path in paths]
        return sorted((int(step), path) for step, path in steps if step.isdecimal())


class RecordWorkspace(EventWorkspace):
    """Finished trials as cells of a study's record; positions in files, as of an event.

    Args:
      record: of the study.
      cells: the key of each trial, by its number.
      path: directory of the positions. Finished trials of earlier versions are there too.
    """

    def __init__(self, record: StudyRecord, cells: Sequence[Cell], path: Path):
        super().__init__(path, 0.0)
        self._record, self._cells = record, cells

    def finished(self, trial: int) -> tuple[Tree, dict] | None:
        """Returns a finished trial's result, arrays as lists, and FLOPs; None if it must be run."""
        if (cell := self._cells[trial]) in self._record:
            kept = self._record[cell]
            return kept["result"], kept["flops"]
        return super().finished(trial)

    def finish(self, trial: int, result: Tree, counts: dict) -> None:
        """Adds a finished trial's result and FLOPs to the record."""
        self._record.add(self._cells[trial], {"result": result, "flops": counts})


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

    def finished(self, trial: int) -> None:
        """Returns None: the process of the run has already looked."""

    def finish(self, trial: int, result: Tree, counts: dict) -> None:
        """Does nothing: the result goes to the process of the run."""

    def due(self, trial: int | None) -> bool:
        """Whether enough time has passed to save a position, and the run still needs it."""
        return super().due(trial) and self._mark.exists()

    def restore(self, trial: int | None) -> tuple[int, Tree, dict] | None:
        """Returns step, tree and FLOPs of the last undamaged position of a trial, or None."""
        return super().restore(trial) if self._mark.exists() else None


def _position_prefix(trial: int | None) -> str:
    return "event.step-" if trial is None else f"trial-{trial:03d}.step-"
