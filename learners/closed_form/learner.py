"""The learner `closed_form`: each task is learned on its own, without training steps."""

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from nevis_stream import metrics
from nevis_stream.cost.counted import multiply_in_full_precision
from nevis_stream.datasets.images import Images
from nevis_stream.learner import Context, Predictor, State
from nevis_stream.learners.closed_form import ridge
from nevis_stream.learners.closed_form.config import ClosedFormConfig
from nevis_stream.learners.closed_form.embedding import Embedding, FeaturePlan, ImageSelection
from nevis_stream.storage.checkpoint import Tree
from nevis_stream.streams.task import SINGLE_LABEL, TaskView

_MOST_CELLS = 3 * 2**26  # cells of the kernel matrix (images × centres): 768 MB
_ALL_IMAGES = 64  # up to this size, gradients are computed of smaller images too
_TEMPERATURES = np.geomspace(0.02, 1, 12, dtype=np.float32)


@dataclass(frozen=True)
class TrainingImages:
    """The images that a task is learned from, in random order.

    Attributes:
      images: n images of the train and dev splits.
      labels: int32[n] or uint8[n, labels].
      targets: float32[n, outputs], the class indicators minus `means`.
      means: float32[outputs], the frequency of each class.
      from_dev: bool[n], whether the image belongs to the dev split.
      rows: int[n], the images' positions in the train split followed by the dev split.
    """

    images: ImageSelection
    labels: np.ndarray
    targets: np.ndarray
    means: np.ndarray
    from_dev: np.ndarray
    rows: np.ndarray


@dataclass(frozen=True)
class LeaveOneOutPredictions:
    """Leave-one-out predictions: each image is answered by a fit to all the others, or without dev.

    Attributes:
      positions: int[j], the positions of the answered examples.
      scores: float32[j, outputs].
      error: by the task's metric; 1 if it is undefined.
      loss: mean squared difference of score and indicator; decides between equal errors.
    """

    positions: np.ndarray
    scores: np.ndarray
    error: float
    loss: float


@dataclass(frozen=True)
class ChosenKernel:
    """Features and a kernel.

    Attributes:
      embedding: the features.
      embedded: features of the first examples.
      kernel: width, mirrored (0 or 1) and regularisation (see `ridge.solve`).
      left_out: leave-one-out answers to the first examples.
    """

    embedding: Embedding
    embedded: Tree
    kernel: tuple[float, float, float]
    left_out: LeaveOneOutPredictions


@dataclass(frozen=True)
class ClosedForm:
    """Kernel ridge regression on image features."""

    config: ClosedFormConfig

    def init(self, ctx: Context) -> State:
        """Returns the empty state: nothing is carried from task to task."""
        return {}

    def train(
        self, task: TaskView, state: State, ctx: Context
    ) -> tuple[State, Sequence[Predictor]]:
        """Fits one predictor to the train and dev splits together."""
        tree, *_ = self._learn(task, ctx)
        return state, [Predictor(tree, info=tree["facts"] | {"initialised_from": "random"})]

    @multiply_in_full_precision
    def _learn(
        self, task: TaskView, ctx: Context, held_out_above: float = np.inf
    ) -> tuple[dict[str, Any], TrainingImages, LeaveOneOutPredictions]:
        """Returns the tree of a predictor, the examples, and leave-one-out answers to some.

        If there are too many images for an exact fit, and the leave-one-out error of the choice is
        above `held_out_above`, the answers are those of a fit without dev to the images of dev.
        """
        examples = self._examples(task, ctx)
        choice = self._choose(task, examples, ctx)
        held_out = choice.left_out.error > held_out_above
        fit, left_out = self._fit(task, examples, choice, ctx, held_out)
        labels, from_dev = (
            examples.labels[left_out.positions],
            examples.from_dev[left_out.positions],
        )
        with ctx.phase("validate"):
            temperature = _temperature(ctx, labels, left_out.scores, task.kind)
        width, mirrored, regularisation = choice.kernel
        plan = choice.embedding.plan
        tree = fit | {
            "embedding": choice.embedding.tree,
            "gradients": list(plan.gradients),
            "pixels": plan.pixels,
            "patches": plan.patches,
            "means": examples.means,
            "kernel": [width, mirrored],
            "temperature": temperature,
            "kind": task.kind,
            "facts": {
                "hyper": {
                    "width": width,
                    "mirrored": bool(mirrored),
                    "regularisation": regularisation,
                    "patches": plan.patches,
                },
                "dev_error": measure_error(task.kind, labels[from_dev], left_out.scores[from_dev]),
            },
        }
        return tree, examples, left_out

    @multiply_in_full_precision
    def predict(self, predictor: Tree, images: Images, ctx: Context) -> np.ndarray:
        """Returns float32[n, classes] probabilities."""
        gradients, pixels, patches = (predictor[key] for key in ("gradients", "pixels", "patches"))
        plan = FeaturePlan(tuple(gradients), pixels, patches)
        embedding = Embedding(plan, predictor["embedding"])
        program, single = ctx.jit(_probabilities), predictor["kind"] == SINGLE_LABEL
        fit = jax.device_put([predictor[name] for name in ("centres", "coefficients", "means")])
        settings = predictor["kernel"], predictor["temperature"], single
        answers = [
            np.asarray(program(embedded, *fit, *settings))[:count]
            for embedded, count in embedding.batches(ctx, ImageSelection.all_of(images))
        ]
        return np.concatenate(answers)

    def _plan(self, gradients: Sequence[int], patches: int) -> FeaturePlan:
        return FeaturePlan(tuple(gradients), self.config.pixels, patches)

    def _examples(self, task: TaskView, ctx: Context) -> TrainingImages:
        labels = np.concatenate([task.train.labels, task.dev.labels])
        order = ctx.generator("examples").permutation(len(labels))[: self.config.pictures]
        labels = labels[order]
        single = task.kind == SINGLE_LABEL
        indicators = np.eye(task.num_classes, dtype=np.float32)[labels] if single else labels
        means = indicators.mean(0, dtype=np.float64).astype(np.float32)
        return TrainingImages(
            ImageSelection.all_of(task.train.images, task.dev.images).take(order),
            labels,
            indicators - means,
            means,
            order >= len(task.train),
            order,
        )

    def _choose(self, task: TaskView, examples: TrainingImages, ctx: Context) -> ChosenKernel:
        """Returns the features and the kernel with the lowest leave-one-out error.

        Patches are tried only if the error without them is above config.patches_above. Sizes of
        more than 64 pixels are used only if the longer side of half of the images has as many.
        """
        longer = np.median(np.concatenate([p.images.sizes for p in (task.train, task.dev)]).max(1))
        first, *others = self.config.gradients
        gradients = [first, *(side for side in others if side <= max(longer, _ALL_IMAGES))]
        best = self._best(task, examples, self._plan(gradients, 0), ctx)
        if self.config.patches and best.left_out.error > self.config.patches_above:
            with_patches = self._best(
                task, examples, self._plan(gradients, self.config.patches), ctx
            )
            best = min(best, with_patches, key=_rank)
        return best

    def _best(
        self, task: TaskView, examples: TrainingImages, plan: FeaturePlan, ctx: Context
    ) -> ChosenKernel:
        """Returns the best kernel for these features, judged by fits to the first examples."""
        config = self.config
        sample = examples.images.take(slice(config.sample))
        embedding, embedded = Embedding.fit(ctx, plan, sample, config.components)
        positions, choices = np.arange(len(sample)), []
        for width, mirrored, regularisation in itertools.product(
            config.widths, config.mirrored, config.regularisations
        ):
            kernel = width, float(mirrored), regularisation
            with ctx.phase("validate"):
                _, left_out = _solve(ctx, task, examples, embedded, kernel, positions)
            choices.append(ChosenKernel(embedding, embedded, kernel, left_out))
        return min(choices, key=_rank)

    def _fit(
        self,
        task: TaskView,
        examples: TrainingImages,
        choice: ChosenKernel,
        ctx: Context,
        held_out: bool,
    ) -> tuple[dict[str, Any], LeaveOneOutPredictions]:
        """Fits all examples; returns centres with coefficients, and leave-one-out answers.

        If there are too many for an exact fit, the answers are those of the choice or, if
        `held_out`, of a fit without dev (whose targets are centred with all class frequencies).
        """
        config = self.config
        n, embedded = len(examples.images), _embed_all(examples, choice, ctx)
        if n <= config.centres:
            positions = np.argsort(~examples.from_dev, kind="stable")[: config.sample]
            coefficients, left_out = _solve(ctx, task, examples, embedded, choice.kernel, positions)
            return _replace_failed_fit(task, examples, embedded, coefficients, left_out)
        m = max(1, min(config.centres, _MOST_CELLS // n))
        centres = {name: half[:m].copy() for name, half in embedded.items()}
        held_out = held_out and bool(examples.from_dev.any())
        dev = {name: half[examples.from_dev] for name, half in embedded.items()} if held_out else {}
        # one half after the other, so that its memory is freed
        blocks = {
            name: jax.device_put(ridge.split_into_blocks(embedded.pop(name))) for name in centres
        }
        targets, program = (
            ridge.split_into_blocks(examples.targets),
            ctx.jit(_nystrom(config.iterations)),
        )

        def fit(used: np.ndarray) -> np.ndarray:
            weights = ridge.split_into_blocks(used.astype(np.float32))
            for jitter in ridge.JITTERS:
                found = np.asarray(
                    program(centres, blocks, targets, weights, jitter, *choice.kernel)
                )
                if np.isfinite(found).all():
                    break
            return found

        left_out = choice.left_out
        if held_out:
            with ctx.phase("validate"):
                part = centres, fit(~examples.from_dev), np.zeros_like(examples.means)
                answers = np.asarray(ctx.jit(ridge.predict_scores)(dev, *part, *choice.kernel[:2]))
            left_out = _judge(task, examples, np.flatnonzero(examples.from_dev), answers)
        return _replace_failed_fit(task, examples, centres, fit(np.ones(n, bool)), left_out)


def _replace_failed_fit(
    task: TaskView,
    examples: TrainingImages,
    centres: Tree,
    coefficients: Any,
    left_out: LeaveOneOutPredictions,
) -> tuple[dict[str, Any], LeaveOneOutPredictions]:
    """Returns a fit and its leave-one-out answers, both unchanged if the coefficients are finite.

    If the fit failed (of thousands of nearly equal images), both answer with the class frequencies.
    """
    coefficients = np.asarray(coefficients)
    if not np.isfinite(coefficients).all():
        coefficients = np.zeros_like(coefficients)
        nothing = np.zeros_like(left_out.scores)
        left_out = _judge(task, examples, left_out.positions, nothing)
    return {"centres": centres, "coefficients": coefficients}, left_out


def _embed_all(
    examples: TrainingImages, choice: ChosenKernel, ctx: Context
) -> dict[str, np.ndarray]:
    """Returns the features of all examples; the choice already has those of the first ones."""
    first = {name: np.asarray(half) for name, half in choice.embedded.items()}
    n, done = len(examples.images), len(first["even"])
    if n == done:
        return first
    remaining = choice.embedding(ctx, examples.images.take(slice(done, n)))
    return {name: np.concatenate([first[name], remaining.pop(name)]) for name in first}


def _rank(choice: ChosenKernel) -> tuple[float, float]:
    return choice.left_out.error, choice.left_out.loss


def _solve(
    ctx: Context,
    task: TaskView,
    examples: TrainingImages,
    embedded: Tree,
    kernel: tuple[float, float, float],
    positions: np.ndarray,
) -> tuple[Any, LeaveOneOutPredictions]:
    """Fits the embedded examples; returns the coefficients and leave-one-out answers."""
    targets = examples.targets[: len(embedded["even"])]
    factor, coefficients = ctx.jit(ridge.solve)(embedded, targets, *kernel)
    with ctx.phase("validate"):
        answers = ctx.jit(ridge.predict_left_out)(factor, coefficients, targets, positions)
    return coefficients, _judge(task, examples, positions, np.asarray(answers))


def _judge(
    task: TaskView, examples: TrainingImages, positions: np.ndarray, answers: np.ndarray
) -> LeaveOneOutPredictions:
    """Returns the answers, from which the means are still subtracted, with their error.

    A fit that failed, so that an answer is not finite, has the highest error and loss.
    """
    scores = np.nan_to_num(answers + examples.means)
    if not np.isfinite(answers).all():
        return LeaveOneOutPredictions(positions, scores, 1.0, np.inf)
    error = measure_error(task.kind, examples.labels[positions], scores)
    loss = float(((answers - examples.targets[positions]) ** 2).mean())
    return LeaveOneOutPredictions(positions, scores, 1.0 if error is None else error, loss)


@functools.cache
def _nystrom(iterations: int):
    return functools.partial(ridge.fit_nystrom, iterations=iterations)


def measure_error(kind: str, labels: np.ndarray, scores: np.ndarray) -> float | None:
    """Returns the error of scores by the metric of the kind of task; None if it is undefined."""
    if not len(labels):
        return None
    metric = metrics.find_metric(kind)
    error = metric.to_error(metric.aggregate(labels, scores))
    return None if np.isnan(error) else float(error)


def log_probabilities(scores, temperature, single):
    """Returns float32[2, b, outputs]: log-probabilities that a label applies, and that it does not.

    Single-label tasks use softmax(scores / temperature), and their second row is 0; multi-label
    tasks use a sigmoid for each label.
    """
    logits = (scores - 0.5) / temperature
    log_softmax = jax.nn.log_softmax(scores / temperature)
    yes = jnp.where(single, log_softmax, jax.nn.log_sigmoid(logits))
    return jnp.stack([yes, jnp.where(single, 0.0, jax.nn.log_sigmoid(-logits))])


def _temperature(ctx: Context, labels: np.ndarray, scores: np.ndarray, kind: str) -> float:
    """Returns the temperature with the highest likelihood of the labels."""
    single = kind == SINGLE_LABEL
    indicators = np.eye(scores.shape[1])[labels] if single else labels
    losses = ctx.jit(_losses)(scores, indicators.astype(np.float32), single)
    return float(_TEMPERATURES[int(np.argmin(np.asarray(losses)))])


def _losses(scores, indicators, single):
    def loss(temperature):
        yes, no = log_probabilities(scores, temperature, single)
        return -(indicators * yes + (1 - indicators) * no).sum()

    return jax.vmap(loss)(jnp.asarray(_TEMPERATURES))


def _probabilities(embedded, centres, coefficients, means, kernel, temperature, single):
    scores = ridge.predict_scores(embedded, centres, coefficients, means, *kernel)
    return jnp.exp(log_probabilities(scores, temperature, single)[0])
