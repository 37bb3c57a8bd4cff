"""Trainings that continue after a kill: positions are kept on disk until their fit is stored."""

import contextlib
import contextvars
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
import numpy as np

from nevis_stream.cost.compute import Compute
from nevis_stream.cost.meter import total
from nevis_stream.errors import DamagedCheckpoint
from nevis_stream.storage import checkpoint
from nevis_stream.storage.checkpoint import Checkpoint, Tree

SECONDS = 20.0  # between two positions of a training
LEAVES = "leaves"

_folder: contextvars.ContextVar[Path | None] = contextvars.ContextVar("positions", default=None)


@contextlib.contextmanager
def kept_in(folder: Path) -> Iterator[None]:
    """Inside the block trainings keep their positions in a folder, each in a checkpoint."""
    token = _folder.set(folder)
    try:
        yield
    finally:
        _folder.reset(token)


def remove(folder: Path) -> None:
    """Deletes the positions in a folder."""
    shutil.rmtree(folder, ignore_errors=True)


def train(
    ctx: Compute,
    name: Callable[[], str],
    start: Tree,
    parts: int,
    advance: Callable[[Tree, int], Tree],
) -> Tree:
    """Returns the state after all parts of a training; one that was killed continues at its last
    position, and is charged the same FLOPs.

    Args:
      ctx: counts FLOPs and shows progress.
      name: returns a file name that only this training has: a hash of all that it depends on.
        Called only if positions are kept.
      start: the state before the first part, a tree of arrays.
      parts: number of parts.
      advance: takes a state and the number of a part, from 0, and returns the state after it.
    """
    folder = _folder.get()
    path = None if folder is None else folder / name()
    state, done, flops = start, 0, 0
    if path is not None and (saved := _read(path)) is not None:
        leaves, done, flops = saved
        state = jax.tree.unflatten(jax.tree.structure(start), leaves)
        ctx.charge(flops)
    before, due = total(ctx.meter.counts()) - flops, time.monotonic() + SECONDS
    for part in range(done, parts):
        state = advance(state, part)
        ctx.progress(part + 1, parts)
        if path is not None and (time.monotonic() >= due or part + 1 == parts):
            leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(state)]
            record = {"done": part + 1, "flops": total(ctx.meter.counts()) - before}
            checkpoint.write(path, {LEAVES: leaves}, record)
            due = time.monotonic() + SECONDS
    return state


def _read(path: Path) -> tuple[list[np.ndarray], int, int] | None:
    """Returns the leaves of a position, the number of parts done, and their FLOPs; None if there is
    no position or it is damaged.
    """
    try:
        saved = Checkpoint(path)
        return saved.load(LEAVES), saved.record["done"], saved.record["flops"]
    except (DamagedCheckpoint, KeyError):
        return None
