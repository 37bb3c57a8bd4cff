"""Training on a weighted set of images: the minimiser of an empirical rollout.

The network is that of the paper's CIFAR-10 simulation: two 3×3 convolutions without padding (32 and
64 filters), each followed by max-pooling, dropout, and a linear layer: 42,442 parameters for 32×32
RGB images and 10 classes (Appendix B.1, which does not give the rate of dropout, the optimiser or
the batch size). The images are a single-label data set of the catalogue or a file.
"""

import hashlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from nevis_stream import catalogue
from nevis_stream.cost.counted import choose_convolution_options, make_once
from nevis_stream.datasets import sources
from nevis_stream.datasets.dataset import SINGLE_LABEL
from nevis_stream.errors import BadInput, unknown
from nevis_stream.experiments.theory.designs import Place
from nevis_stream.learner import Context
from nevis_stream.seeds import key_of
from nevis_stream.training.descent import State, begin, make_optimiser, make_step
from nevis_stream.training.loop import take_steps

SIDE = 32
"""Side of the images in pixels."""
DROPOUT = 0.25
OPTIMISER = {"rate": 2e-3}  # of Adam

Parameters = Mapping[str, jax.Array]


def initialise(generator: np.random.Generator, classes: int) -> Parameters:
    """Returns new parameters, Glorot-uniform, with biases of 0."""
    side = ((SIDE - 2) // 2 - 2) // 2
    shapes = {"first": (3, 3, 3, 32), "second": (3, 3, 32, 64), "head": (side * side * 64, classes)}
    parameters = {}
    for name, shape in shapes.items():
        taps = int(np.prod(shape[:-2]))
        limit = np.sqrt(6 / (taps * (shape[-2] + shape[-1])))
        parameters[name] = jnp.asarray(generator.uniform(-limit, limit, shape), jnp.float32)
        parameters[f"{name}_bias"] = jnp.zeros(shape[-1])
    return parameters


def compute_logits(
    parameters: Parameters, images: jax.Array, dropout_key: jax.Array | None = None
) -> jax.Array:
    """Returns float32[b, classes].

    Args:
      parameters: of the network.
      images: uint8[b, 32, 32, 3].
      dropout_key: JAX key of the dropout in training, or None.
    """
    x = images.astype(jnp.float32) / 127.5 - 1
    for name in ("first", "second"):
        x = _pool(_convolve(x, parameters[name])) + parameters[f"{name}_bias"]
        x = jax.nn.relu(x)
    x = x.reshape(len(x), -1)
    if dropout_key is not None:
        kept = jax.random.bits(dropout_key, x.shape, "uint8") < int(256 * (1 - DROPOUT))
        x = x * kept / (1 - DROPOUT)
    return x @ parameters["head"] + parameters["head_bias"]


def _convolve(x: jax.Array, kernel: jax.Array) -> jax.Array:
    names = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, kernel, (1, 1), "VALID", dimension_numbers=names)


def _pool(x: jax.Array) -> jax.Array:
    """Max-pooling 2×2; the gradient of `lax.reduce_window` takes three times as long on a CPU."""
    x = x[:, : x.shape[1] // 2 * 2, : x.shape[2] // 2 * 2]
    rows = jnp.maximum(x[:, 0::2], x[:, 1::2])
    return jnp.maximum(rows[:, :, 0::2], rows[:, :, 1::2])


@make_once
def make_training_step():
    """Returns `step(state, (images, labels, key))`, one update on a batch."""

    def loss(parameters, batch):
        images, labels, key = batch
        scores = compute_logits(parameters, images, key)
        return optax.softmax_cross_entropy_with_integer_labels(scores, labels).mean()

    step = make_step(loss, make_optimiser(**OPTIMISER).update)
    step.compiler_options = choose_convolution_options()  # type: ignore[attr-defined]
    return step


def predict(parameters: Parameters, images: jax.Array) -> jax.Array:
    """Returns int32[b], the most probable class of each image."""
    return jnp.argmax(compute_logits(parameters, images), axis=-1)


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
    *_, parameters = train_epochs(ctx, pool, distribution, epochs, *name)
    return predict_pool(ctx, pool, parameters)


def predict_pool(ctx: Context, pool: ImagePool, parameters: Parameters) -> np.ndarray:
    """Returns the classes that a network predicts, int16[n]."""
    answer = ctx.jit(predict)
    with ctx.phase("predict"):
        parts = [
            np.asarray(answer(parameters, pool.images[begin : begin + _TOGETHER]))
            for begin in range(0, len(pool), _TOGETHER)
        ]
    return np.concatenate(parts).astype(np.int16)


def train_epochs(
    ctx: Context, pool: ImagePool, distribution: np.ndarray, epochs: int, *name: str | int
) -> Iterator[Parameters]:
    """Trains a new network; yields its parameters after each epoch. Arguments as of `fit`."""
    step, generator = ctx.jit(make_training_step()), ctx.generator("training", *name)
    start = begin(make_optimiser(**OPTIMISER), initialise(generator, pool.classes))
    key, numbers = key_of(ctx.seed_for("dropout", *name)), itertools.count()

    def advance(state: State, *_: int) -> State:
        order = draw(distribution, len(pool), generator)
        for first in range(0, len(order) - len(order) % BATCH, BATCH):
            batch = order[first : first + BATCH]
            dropout = jax.random.fold_in(key, next(numbers))
            state = step(state, (pool.images[batch], pool.labels[batch], dropout))
        return state

    for _, (parameters, _) in take_steps(start, 0, epochs, advance):
        yield parameters


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


EMBEDDED, SHARED = "pico_digits", "fashion_mnist"


def choose_default_data() -> str:
    """Returns the data set of the default study: Fashion-MNIST if this machine has it, else one
    that the package carries."""
    ready = sources.find_state(catalogue.read_datasets()[SHARED]["source"]).ready
    return SHARED if ready else EMBEDDED


def load_pool(data: str, images: int) -> tuple[ImagePool, str]:
    """Returns the first images of a data set's training part and their fingerprint, 16 hex digits.

    Args:
      data: id of a data set of the catalogue; or the name of a file in the folder of shared data
        sets, without .npz; or the path of a file.
      images: number of images; fewer if the training part has fewer.

    Raises:
      BadInput: an unknown or missing data set, a multi-label one, or fewer than a batch of images.
    """
    known = catalogue.read_datasets()
    file = f"data/{data}.npz"
    if data in known:
        name, source = data, known[data]["source"]
    elif Path(data).exists():
        name, source = Path(data).stem, f"file:{data}"
    elif (catalogue.find_shared_directory() / file).exists():
        name, source = data, f"shared:{file}"
    else:
        raise BadInput(
            f"--data: {unknown('data set', data, known)} Or the name of a file in the folder that"
            " NEVIS_STREAM_SHARED names, or the path of a file."
        )
    dataset = sources.load(name, source)
    if dataset.kind != SINGLE_LABEL:
        raise BadInput(f"--data={data}: is multi-label; rollouts need single-label data.")
    samples = dataset.parts["train" if "train" in dataset.parts else "all"]
    if min(images, len(samples)) < BATCH:
        raise BadInput(f"--images={images}: at least {BATCH} are needed; there are {len(samples)}.")
    samples = samples.take(np.arange(min(images, len(samples))))
    pixels, labels = samples.images.resized(SIDE), samples.labels.astype(np.int32)
    fingerprint = hashlib.sha256(pixels.tobytes() + labels.tobytes()).hexdigest()[:16]
    return ImagePool(pixels, labels, dataset.num_classes), fingerprint
