"""Batches for a training loop: resident on the device where they fit, else fetched a step ahead."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from learners.parts.model import TaskShape, targets
from nevis_stream.learner import Context
from nevis_stream.streams.task import TaskView

MODES = ("host", "resident", "ahead")
_SHARE = 0.25  # of the device's memory, for the pictures of one data set
# the pictures that are resident now, by the identity of their array
_kept: dict[int, tuple[np.ndarray, jax.Array]] = {}
_lock = threading.Lock()


class Batches:
    """Epochs of shuffled sample numbers; what step t gets depends on the seed and t alone."""

    def __init__(self, examples: int, size: int, seed: int):
        self._examples, self._size, self._seed = examples, size, seed
        self._orders: dict[int, np.ndarray] = {}

    def __call__(self, step: int) -> np.ndarray:
        """Returns int[size] sample numbers of one step; a step may reach into the next epoch."""
        places = np.arange(step * self._size, (step + 1) * self._size)
        epochs, inside = np.divmod(places, self._examples)
        return np.concatenate(
            [self._order(epoch)[inside[epochs == epoch]] for epoch in np.unique(epochs)]
        )

    def _order(self, epoch: int) -> np.ndarray:
        if epoch not in self._orders:
            self._orders = {e: order for e, order in self._orders.items() if e == epoch - 1}
            words = [self._seed & 0xFFFFFFFF, self._seed >> 32, int(epoch)]
            self._orders[epoch] = np.random.RandomState(words).permutation(self._examples)
        return self._orders[epoch]


@dataclass(frozen=True)
class Batch:
    """One batch of a task.

    Stored uint8[b, s, 3, s], sizes int32[b, 2], target uint8[b, outputs], and the task's shape.
    """

    stored: Any
    sizes: Any
    target: Any
    shape: TaskShape

    def astuple(self) -> tuple:
        """Returns the four, as the step program takes them."""
        return self.stored, self.sizes, self.target, self.shape


class Feed:
    """The batches of one task, step after step; the same ones in every mode.

    Args:
      ctx: context of the trial, over whose devices batches are spread.
      task: whose train split.
      side: of the stored pictures in pixels.
      size: examples a batch.
      seed: of their order.
      mode: "host" (gathered in the loop: where host and device share their memory), "resident" (the
        pictures are on the device), "ahead" (gathered and sent one step ahead by a thread of its
        own), or None for what fits.
    """

    def __init__(
        self, ctx: Context, task: TaskView, side: int, size: int, seed: int, mode: str | None = None
    ):
        self._ctx, self._task = ctx, task
        self._stored, self._sizes = task.train.images.banded(side), task.train.images.sizes
        self._order = Batches(len(task.train), size, seed)
        self.shape = TaskShape.of(task.kind, task.num_classes)
        self.mode = mode or _mode(self._stored.nbytes)
        self._next: tuple[int, Any] | None = None
        self._pool = ThreadPoolExecutor(1) if self.mode == "ahead" else None

    def __call__(self, step: int) -> Batch:
        """Returns the batch of a step."""
        if self._pool is None:
            return self._gather(step)
        batch = (
            self._next[1].result() if self._next and self._next[0] == step else self._gather(step)
        )
        self._next = step + 1, self._pool.submit(self._gather, step + 1)
        return batch

    def close(self) -> None:
        """Ends the thread that works ahead."""
        if self._pool:
            self._pool.shutdown(cancel_futures=True)

    def _gather(self, step: int) -> Batch:
        picked = self._order(step)
        target = targets(self._task.train.labels[picked], self._task.kind, self._task.num_classes)
        stored = (
            _take(_resident(self._stored), picked)
            if self.mode == "resident"
            else self._stored[picked]
        )
        parts = stored, self._sizes[picked], target
        if self.mode == "ahead":
            parts = jax.device_put(parts)
        return Batch(*self._ctx.spread(parts), self.shape)


def _mode(size: int) -> str:
    """Returns how pictures of `size` bytes are fed."""
    memory = _memory()
    return "host" if memory is None else "resident" if size <= _SHARE * memory else "ahead"


def _memory() -> int | None:
    """Returns the bytes of the device's own memory; None where it shares the host's."""
    device = jax.local_devices()[0]
    return None if device.platform == "cpu" else (device.memory_stats() or {}).get("bytes_limit", 0)


_take = jax.jit(lambda pictures, picked: jnp.take(pictures, picked, axis=0))


def _resident(pictures: np.ndarray) -> jax.Array:
    """Returns the pictures on the device.

    The oldest ones make room when together they take more than twice the share.
    """
    with _lock:
        if id(pictures) not in _kept:
            room = 2 * _SHARE * (_memory() or np.inf)
            while (
                _kept and pictures.nbytes + sum(array.nbytes for _, array in _kept.values()) > room
            ):
                del _kept[next(iter(_kept))]
            _kept[id(pictures)] = pictures, jax.device_put(np.asarray(pictures))
        return _kept[id(pictures)][1]
