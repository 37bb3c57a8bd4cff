"""Batches of a training loop: kept on the device if they fit, else fetched a step ahead."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from nevis_stream.cost.counted import find_default_device
from nevis_stream.learner import Context
from nevis_stream.learners.parts.model import TaskShape, encode_targets
from nevis_stream.streams.task import TaskView

_SHARE = 0.25  # largest share of the device's memory for the images of one data set
# the images that are on the device, by the identity of their array
_on_device: dict[tuple[int, Any], tuple[np.ndarray, jax.Array]] = {}
_lock = threading.Lock()


class Batches:
    """Sample numbers in shuffled epochs; those of a step depend only on the seed and the step."""

    def __init__(self, examples: int, size: int, seed: int):
        self._examples, self._size, self._seed = examples, size, seed
        self._orders: dict[int, np.ndarray] = {}

    def __call__(self, step: int) -> np.ndarray:
        """Returns int[size], the samples of a step; a step may extend into the next epoch."""
        places = np.arange(step * self._size, (step + 1) * self._size)
        epochs, positions = np.divmod(places, self._examples)
        return np.concatenate(
            [self._order(epoch)[positions[epochs == epoch]] for epoch in np.unique(epochs)]
        )

    def _order(self, epoch: int) -> np.ndarray:
        if epoch not in self._orders:
            self._orders = {e: order for e, order in self._orders.items() if e == epoch - 1}
            words = [self._seed & 0xFFFFFFFF, self._seed >> 32, int(epoch)]
            self._orders[epoch] = np.random.RandomState(words).permutation(self._examples)
        return self._orders[epoch]


class Batch(NamedTuple):
    """One batch of a task.

    Attributes:
      stored: uint8[b, s, 3, s], the images (`Images.banded`).
      sizes: int32[b, 2], height and width of the original images in pixels.
      target: uint8[b, outputs] with 0 or 1.
      shape: what a program must know of the task.
    """

    stored: Any
    sizes: Any
    target: Any
    shape: TaskShape


class Feed:
    """The batches of a task's train split, step after step; they are the same in every mode.

    Args:
      ctx: context of the trial, over whose devices each batch is spread.
      task: the task.
      side: side of the stored images in pixels.
      size: examples per batch.
      seed: seed of their order.
      mode: "host" (gathered by the host at each step, for devices that share its memory),
        "resident" (all images are on the device), "ahead" (gathered and sent one step ahead by
        another thread), or None to choose by size.
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
        self._device = find_default_device()
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
        """Ends the thread of the mode "ahead"."""
        if self._pool:
            self._pool.shutdown(cancel_futures=True)

    def _gather(self, step: int) -> Batch:
        picked = self._order(step)
        target = encode_targets(
            self._task.train.labels[picked], self._task.kind, self._task.num_classes
        )
        stored = (
            _take(_resident(self._stored), picked)
            if self.mode == "resident"
            else self._stored[picked]
        )
        parts = stored, self._sizes[picked], target
        if self.mode == "ahead":
            with jax.default_device(self._device):  # the other thread has none of its own
                parts = jax.device_put(parts)
        images, sizes, target = self._ctx.spread(parts)
        return Batch(images, sizes, target, self.shape)


def _mode(size: int) -> str:
    """Returns the mode for images of `size` bytes."""
    memory = _memory()
    return "host" if memory is None else "resident" if size <= _SHARE * memory else "ahead"


def _memory() -> int | None:
    """Returns the bytes of the device's memory; None if it shares the host's."""
    device = jax.local_devices()[0]
    return None if device.platform == "cpu" else (device.memory_stats() or {}).get("bytes_limit", 0)


_take = jax.jit(lambda images, picked: jnp.take(images, picked, axis=0))


def _resident(images: np.ndarray) -> jax.Array:
    """Returns the images on the device; if all there become too many, the oldest are removed."""
    device = find_default_device()
    with _lock:
        if (id(images), device) not in _on_device:
            room = 2 * _SHARE * (_memory() or np.inf) - images.nbytes
            there = [key for key in _on_device if key[1] == device]
            while there and sum(_on_device[key][1].nbytes for key in there) > room:
                del _on_device[there.pop(0)]
            _on_device[id(images), device] = images, jax.device_put(np.asarray(images))
        return _on_device[id(images), device][1]
