"""The learner `closed_form`: each task by itself, without a training step."""

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from learners.closed_form import ridge
from learners.closed_form.config import ClosedFormConfig
from learners.closed_form.embedding import Embedding, Pictures, Plan
from nevis_stream import metrics
from nevis_stream.datasets.images import Images
from nevis_stream.learner import Context, Predictor, State
from nevis_stream.run_directory.checkpoint import Tree
from nevis_stream.streams.task import SINGLE_LABEL, TaskView

_MOST_CELLS = 2**27  # of the kernel matrix of pictures and centres: 512 MB
_TEMPERATURES = np.geomspace(0.02, 1, 12, dtype=np.float32)


@dataclass(frozen=True)
class Examples:
    """The pictures that a task is learned from, in random order.

    Attributes:
      pictures: n of them, of the train and dev splits.
      labels: int32[n] or uint8[n, labels].
      targets: float32[n, outputs]: indicators less `means`.
      means: float32[outputs]: how frequent each class is.
      from_dev: bool[n]: whether a picture is one of the dev split.
    """

    pictures: Pictures
    labels: np.ndarray
    targets: np.ndarray
    means: np.ndarray
    from_dev: np.ndarray


@dataclass(frozen=True)
class Judged:
    """What a fit answers to pictures that it has been fitted without.

    Attributes:
      places: int[j], which of the examples.
      scores: float32[j, outputs].
      error: by the task's metric; 1 where it is undefined.
      loss: mean square of score less indicator, by which equal errors are compared.
    """

    places: np.ndarray
    scores: np.ndarray
    error: float
    loss: float


@dataclass(frozen=True)
class Choice:
    """Features and a kernel.

    Attributes:
      embedding: the features.
      embedded: those of the first examples.
      kernel: width, mirrored (0 or 1) and regularisation (see `ridge.solve`).
      judged: leave-one-out answers to the first examples.
    """

    embedding: Embedding
    embedded: Tree
    kernel: tuple[float, float, float]
    judged: Judged


@dataclass(frozen=True)
class ClosedForm:
    """Kernel ridge regression on features of pictures."""

    config: ClosedFormConfig

    def init(self, ctx: Context) -> State:
        """Returns the empty state: nothing is carried from task to task."""
        return {}

    def train(
        self, task: TaskView, state: State, ctx: Context
    ) -> tuple[State, Sequence[Predictor]]:
        """Fits one predictor to the train and dev splits together."""
        examples = self._examples(task, ctx)
        choice = self._choose(task, examples, ctx)
        fit, judged = self._fit(task, examples, choice, ctx)
        labels, from_dev = examples.labels[judged.places], examples.from_dev[judged.places]
        with ctx.phase("validate"):
            temperature = _temperature(ctx, labels, judged.scores, task.kind)
        width, mirrored, regularisation = choice.kernel
        patches = choice.embedding.plan.patches
        tree = fit | {
            "embedding": choice.embedding.tree,
            "patches": patches,
            "means": examples.means,
            "kernel": [width, mirrored],
            "temperature": temperature,
            "kind": task.kind,
            "facts": {
                "hyper": {
                    "width": width,
                    "mirrored": bool(mirrored),
                    "regularisation": regularisation,
                    "patches": patches,
                },
                "dev_error": _error(task.kind, labels[from_dev], judged.scores[from_dev]),
            },
        }
        info = tree["facts"] | {"initialised_from": "random"}
        return state, [Predictor(tree, info=info)]

    def predict(self, predictor: Tree, images: Images, ctx: Context) -> np.ndarray:
        """Returns float32[n, classes] probabilities."""
        embedding = Embedding(self._plan(predictor["patches"]), predictor["embedding"])
        program, single = ctx.jit(_probabilities), predictor["kind"] == SINGLE_LABEL
        fit = jax.device_put([predictor[name] for name in ("centres", "coefficients", "means")])
        rest = predictor["kernel"], predictor["temperature"], single
        answers = [
            np.asarray(program(embedded, *fit, *rest))[:count]
            for embedded, count in embedding.batches(ctx, Pictures.all_of(images))
        ]
        return np.concatenate(answers)

    def _plan(self, patches: int) -> Plan:
        return Plan(self.config.gradients, self.config.pixels, patches)

    def _examples(self, task: TaskView, ctx: Context) -> Examples:
        labels = np.concatenate([task.train.labels, task.dev.labels])
        order = ctx.generator("examples").permutation(len(labels))[: self.config.pictures]
        labels = labels[order]
        members = np.eye(task.num_classes)[labels] if task.kind == SINGLE_LABEL else labels
        means = members.mean(0)
        return Examples(
            Pictures.all_of(task.train.images, task.dev.images).take(order),
            labels,
            np.asarray(members - means, np.float32),
            np.asarray(means, np.float32),
            order >= len(task.train),
        )

    def _choose(self, task: TaskView, examples: Examples, ctx: Context) -> Choice:
        """Returns the features and the kernel with the lowest leave-one-out error.

        Patches are tried only where the error without them leaves something to gain.
        """
        best = self._best(task, examples, self._plan(0), ctx)
        if self.config.patches and best.judged.error > self.config.patches_above:
            other = self._best(task, examples, self._plan(self.config.patches), ctx)
            best = min(best, other, key=_rank)
        return best

    def _best(self, task: TaskView, examples: Examples, plan: Plan, ctx: Context) -> Choice:
        """Returns the best kernel for some features, by fits to the first examples."""
        config = self.config
        sample = examples.pictures.take(slice(config.sample))
        embedding, embedded = Embedding.fit(ctx, plan, sample, config.components)
        places, choices = np.arange(len(sample)), []
        for width, mirrored, regularisation in itertools.product(
            config.widths, config.mirrored, config.regularisations
        ):
            kernel = width, float(mirrored), regularisation
            with ctx.phase("validate"):
                _, judged = _solve(ctx, task, examples, embedded, kernel, places)
            choices.append(Choice(embedding, embedded, kernel, judged))
        return min(choices, key=_rank)

    def _fit(
        self, task: TaskView, examples: Examples, choice: Choice, ctx: Context
    ) -> tuple[dict[str, Any], Judged]:
        """Fits all examples; returns centres with coefficients, and leave-one-out answers.

        Where there are too many for an exact fit, the answers are those of the choice.
        """
        n, embedded = len(examples.pictures), _all_embedded(examples, choice, ctx)
        if n <= self.config.centres:
            places = np.argsort(~examples.from_dev, kind="stable")[: self.config.sample]
            coefficients, judged = _solve(ctx, task, examples, embedded, choice.kernel, places)
            return {"centres": embedded, "coefficients": coefficients}, judged
        m = max(1, min(self.config.centres, _MOST_CELLS // n))
        centres = {name: half[:m].copy() for name, half in embedded.items()}
        blocks = {name: ridge.in_blocks(embedded.pop(name)) for name in centres}  # memory is freed
        coefficients = ctx.jit(_nystrom(self.config.iterations))(
            centres,
            blocks,
            ridge.in_blocks(examples.targets),
            ridge.in_blocks(np.ones(n, np.float32)),
            *choice.kernel,
        )
        return {"centres": centres, "coefficients": coefficients}, choice.judged


def _all_embedded(examples: Examples, choice: Choice, ctx: Context) -> dict[str, np.ndarray]:
    """Returns the features of all examples; the first ones' are those of the choice."""
    first = {name: np.asarray(half) for name, half in choice.embedded.items()}
    n, known = len(examples.pictures), len(first["even"])
    if n == known:
        return first
    others = choice.embedding(ctx, examples.pictures.take(slice(known, n)))
    return {name: np.concatenate([first[name], others.pop(name)]) for name in first}


def _rank(choice: Choice) -> tuple[float, float]:
    return choice.judged.error, choice.judged.loss


def _solve(
    ctx: Context,
    task: TaskView,
    examples: Examples,
    embedded: Tree,
    kernel: tuple[float, float, float],
    places: np.ndarray,
) -> tuple[Any, Judged]:
    """Fits the first examples; returns the coefficients and the answers to those left out."""
    targets = examples.targets[: len(embedded["even"])]
    factor, coefficients = ctx.jit(ridge.solve)(embedded, targets, *kernel)
    with ctx.phase("validate"):
        left_out = ctx.jit(ridge.left_out)(factor, coefficients, targets, places)
    left_out = np.nan_to_num(np.asarray(left_out))
    error = _error(task.kind, examples.labels[places], left_out + examples.means)
    loss = float(((left_out - targets[places]) ** 2).mean())
    error = 1.0 if error is None else error
    return coefficients, Judged(places, left_out + examples.means, error, loss)


@functools.cache
def _nystrom(iterations: int):
    return functools.partial(ridge.nystrom, iterations=iterations)


def _error(kind: str, labels: np.ndarray, scores: np.ndarray) -> float | None:
    """Returns the error of scores by the metric of the kind; None where it is undefined."""
    if not len(labels):
        return None
    metric = metrics.for_kind(kind)
    error = metric.to_error(metric.aggregate(labels, scores))
    return None if np.isnan(error) else float(error)


def _log_probabilities(scores, temperature, single):
    """Returns the logarithms of softmax(scores / t), or of the labels' sigmoids and of 1 less them.

    float32[2, b, outputs]: of "yes" and of "no", the latter only for several labels.
    """
    each = (scores - 0.5) / temperature
    one = jax.nn.log_softmax(scores / temperature)
    yes = jnp.where(single, one, jax.nn.log_sigmoid(each))
    return jnp.stack([yes, jnp.where(single, 0.0, jax.nn.log_sigmoid(-each))])


def _temperature(ctx: Context, labels: np.ndarray, scores: np.ndarray, kind: str) -> float:
    """Returns the temperature that makes the labels most likely."""
    single = kind == SINGLE_LABEL
    members = np.eye(scores.shape[1])[labels] if single else labels
    losses = ctx.jit(_losses)(scores, members.astype(np.float32), single)
    return float(_TEMPERATURES[int(np.argmin(np.asarray(losses)))])


def _losses(scores, members, single):
    def loss(temperature):
        yes, no = _log_probabilities(scores, temperature, single)
        return -(members * yes + (1 - members) * no).sum()

    return jax.vmap(loss)(jnp.asarray(_TEMPERATURES))


def _probabilities(embedded, centres, coefficients, means, kernel, temperature, single):
    scores = ridge.answers(embedded, centres, coefficients, means, *kernel)
    return jnp.exp(_log_probabilities(scores, temperature, single)[0])
