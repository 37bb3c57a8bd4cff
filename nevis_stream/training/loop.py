"""The loop over the steps of a training, and positions from which a killed training continues."""

import contextlib
import contextvars
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


def take_steps(
    state: Tree,
    start: int,
    stop: int,
    advance: Callable[[Tree, int, int], Tree],
    *,
    every: int = 1,
    goes_on: Callable[[], object] = lambda: True,
) -> Iterator[tuple[int, Tree]]:
    """Takes the steps from `start` up to `stop`; after every few yields how many are done since
    step 0, and the state, a tree of arrays.

    Args:
      state: the state before step `start`.
      start: number of steps that are done already.
      stop: number of steps that are done at the end.
      advance: `advance(state, start, stop)` returns the state after the steps from `start` up to
        `stop`.
      every: at its multiples, and at the end, a state is yielded.
      goes_on: called before each `advance`; what is false ends the training.
    """
    step = start
    while step < stop and goes_on():
        begun, step = step, min(step - step % every + every, stop)
        state = advance(state, begun, step)
        yield step, state


@contextlib.contextmanager
def keep_positions(folder: Path) -> Iterator[None]:
    """Inside the block `train_in_parts` keeps positions, from which it continues, in a folder."""
    token = _folder.set(folder)
    try:
        yield
    finally:
        _folder.reset(token)


def train_in_parts(
    ctx: Compute,
    name: Callable[[], str],
    start: Tree,
    parts: int,
    advance: Callable[[Tree, int, int], Tree],
) -> Tree:
    """Returns the state after all parts of a training; one that was killed continues at its last
    position, and is charged the same FLOPs.

    Args:
      ctx: counts FLOPs and shows progress.
      name: returns a file name that only this training has: a hash of all that it depends on.
        Called only if positions are kept.
      start: the state before the first part, a tree of arrays.
      parts: number of parts.
      advance: as of `take_steps`, called for each part.
    """
    state, done, flops, path = start, 0, 0, None
    if (folder := _folder.get()) is not None:
        path = folder / name()
        # without a position, or with a damaged one, it is trained from the start
        with contextlib.suppress(DamagedCheckpoint, KeyError):
            saved = Checkpoint(path)
            leaves = saved.load(LEAVES)
            done, flops = saved.record["done"], saved.record["flops"]
            state = jax.tree.unflatten(jax.tree.structure(start), leaves)
            ctx.charge(flops)
    before, due = total(ctx.meter.counts()) - flops, time.monotonic() + SECONDS
    for part, state in take_steps(state, done, parts, advance):  # noqa: B020
        ctx.progress(part, parts)
        if path is not None and (time.monotonic() >= due or part == parts):
            leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(state)]
            record = {"done": part, "flops": total(ctx.meter.counts()) - before}
            checkpoint.write(path, {LEAVES: leaves}, record)
            due = time.monotonic() + SECONDS
    return state
