"""Training on a weighted set of images: the minimiser of an empirical rollout."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import jax
import numpy as np

from nevis_stream.experiments.rollouts import network
from nevis_stream.experiments.theory.designs import Place
from nevis_stream.learner import Context
from nevis_stream.seeds import key_of

BATCH = 16
"""Images per step; on a CPU core a larger batch takes longer per image."""
UNKNOWN = -1
"""A class that is not the right one; which it is was not kept."""
_TOGETHER = 250  # images that are predicted at a time


@dataclass(frozen=True)
class ImagePool:
    """Images with labels.

    Attributes:
      images: uint8[n, 32, 32, 3].
      labels: int32[n].
      classes: number of classes.
    """

    images: np.ndarray
    labels: np.ndarray
    classes: int

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, indices: np.ndarray) -> "ImagePool":
        """Returns the images at `indices`."""
        return ImagePool(self.images[indices], self.labels[indices], self.classes)


def draw(distribution: np.ndarray, count: int, generator: np.random.Generator) -> np.ndarray:
    """Returns int64[count] indices in random order: each occurs count × probability times, rounded
    up or down (systematic sampling). A uniform distribution gives each once where count = n.

    >>> sorted(draw(np.full(4, 0.25), 4, np.random.default_rng(0)).tolist())
    [0, 1, 2, 3]
    """
    ticks = (np.arange(count) + generator.random()) / count
    ends = np.cumsum(distribution)
    return generator.permutation(np.searchsorted(ends / ends[-1], ticks, side="right"))


def fit(
    ctx: Context, pool: ImagePool, distribution: np.ndarray, epochs: int, *name: str | int
) -> np.ndarray:
    """Trains a new network and returns the classes that it predicts, int16[n].

    Args:
      ctx: charges FLOPs to the phases train and predict.
      pool: n images.
      distribution: float64[n], from which the training batches are drawn.
      epochs: passes of n draws each, without the last batch if it is not full.
      *name: of the random numbers.
    """
    *_, predict = itertools.islice(training(ctx, pool, distribution, *name), epochs)
    return predict()


def training(
    ctx: Context, pool: ImagePool, distribution: np.ndarray, *name: str | int
) -> Iterator[Callable[[], np.ndarray]]:
    """Trains a new network indefinitely; after each epoch yields a function that returns what it
    predicts, int16[n], and must be called before the next epoch. Arguments as of `fit`.
    """
    step, answer = ctx.jit(network.training_step()), ctx.jit(network.predict)
    generator = ctx.generator("training", *name)
    parameters = network.initialise(generator, pool.classes)
    moments, key = network.optimiser().init(parameters), key_of(ctx.seed_for("dropout", *name))

    def predict() -> np.ndarray:
        with ctx.phase("predict"):
            parts = [
                np.asarray(answer(parameters, pool.images[begin : begin + _TOGETHER]))
                for begin in range(0, len(pool), _TOGETHER)
            ]
        return np.concatenate(parts).astype(np.int16)

    numbers = itertools.count()
    while True:
        order = draw(distribution, len(pool), generator)
        for begin in range(0, len(order) - len(order) % BATCH, BATCH):
            batch = order[begin : begin + BATCH]
            parameters, moments = step(
                parameters,
                moments,
                pool.images[batch],
                pool.labels[batch],
                jax.random.fold_in(key, next(numbers)),
            )
        yield predict


@dataclass
class Trainer:
    """A minimiser that trains a network; `saved` are the predicted classes, int16[k, n], of the
    classifiers that were trained before a kill."""

    ctx: Context
    pool: ImagePool
    epochs: int
    saved: list[np.ndarray]
    number: int = 0

    def __call__(
        self, place: Place, distribution: np.ndarray, earlier: Mapping[Place, np.ndarray]
    ) -> np.ndarray:
        """Returns the error set of the next classifier."""
        number, self.number = self.number, self.number + 1
        if number == len(self.saved):
            self.saved.append(fit(self.ctx, self.pool, distribution, self.epochs, number))
            self.ctx.checkpoint(number + 1, lambda: {"predicted": np.stack(self.saved)})
        return self.saved[number] != self.pool.labels
