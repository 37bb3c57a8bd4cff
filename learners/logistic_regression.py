"""Logistic regression on pixels with scikit-learn, which reports its FLOPs itself."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from nevis_stream import metrics
from nevis_stream.datasets.images import Images
from nevis_stream.learner import Context, Predictor, State
from nevis_stream.storage.checkpoint import Tree
from nevis_stream.streams.task import SINGLE_LABEL, TaskView


@dataclass(frozen=True)
class LogisticRegression:
    """Linear models of each task (or label), with several strengths of regularisation."""

    strengths: tuple[float, ...] = field(
        default=(0.01, 1.0),
        metadata={"help": "scikit-learn's C of each trial", "range": (1e-12, 1e12)},
    )
    resolution: int = field(
        default=16,
        metadata={"help": "side of the reduced images, in pixels", "range": (1, 4096)},
    )
    iterations: int = field(
        default=50, metadata={"help": "largest number of L-BFGS iterations", "range": (1, 10**6)}
    )

    def init(self, ctx: Context) -> State:
        """Returns the empty state."""
        return {}

    def train(
        self, task: TaskView, state: State, ctx: Context
    ) -> tuple[State, Sequence[Predictor]]:
        """Fits a model for each strength; the one with the lowest dev error comes first."""
        pixels, dev = self._pixels(task.train.images), self._pixels(task.dev.images)
        targets = task.train.labels[:, None] if task.kind == SINGLE_LABEL else task.train.labels

        def trial(ctx: Context, strength: float) -> Tree:
            linear = [self._fit(ctx, pixels, column, strength) for column in targets.T]
            tree = {"linear": linear, "kind": task.kind, "classes": task.num_classes}
            with ctx.phase("validate"):
                probabilities = self._answer(ctx, tree, dev)
            metric = metrics.find_metric(task.kind)
            error = metric.to_error(metric.aggregate(task.dev.labels, probabilities))
            return {"tree": tree, "dev_error": None if np.isnan(error) else float(error)}

        results = ctx.map(trial, list(self.strengths))
        predictors = [
            Predictor(
                result["tree"],
                trial=number,
                info={
                    "hyper": {"C": strength},
                    "dev_error": result["dev_error"],
                    "initialised_from": "random",
                },
            )
            for number, (strength, result) in enumerate(zip(self.strengths, results, strict=True))
        ]
        return state, sorted(
            predictors, key=lambda p: np.inf if p.info["dev_error"] is None else p.info["dev_error"]
        )

    def predict(self, predictor: Tree, images: Images, ctx: Context) -> np.ndarray:
        """Returns float32[n, classes] probabilities."""
        return self._answer(ctx, predictor, self._pixels(images))

    def _pixels(self, images: Images) -> np.ndarray:
        return (
            images.center_cropped(self.resolution).reshape(len(images), -1).astype(np.float32)
            / 127.5
            - 1
        )

    def _fit(self, ctx: Context, pixels: np.ndarray, labels: np.ndarray, strength: float) -> Tree:
        """Fits one model; if only one class occurs, the model always answers with that class."""
        import warnings

        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression as Model

        present = np.unique(labels).astype(np.int32)
        if len(present) == 1:
            return {
                "classes": present,
                "coefficients": np.zeros((1, pixels.shape[1])),
                "intercepts": np.ones(1),
            }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = Model(C=strength, max_iter=self.iterations).fit(pixels, labels)
        # an L-BFGS iteration evaluates loss and gradient about once: two products with the pixels
        ctx.charge(4 * int(model.n_iter_.max()) * pixels.size * len(model.coef_))
        return {"classes": present, "coefficients": model.coef_, "intercepts": model.intercept_}

    def _answer(self, ctx: Context, tree: Tree, pixels: np.ndarray) -> np.ndarray:
        columns = []
        for linear in tree["linear"]:
            ctx.charge(2 * pixels.size * len(linear["coefficients"]))
            logits = pixels @ linear["coefficients"].T + linear["intercepts"]
            if logits.shape[1] == 1 and len(linear["classes"]) == 2:
                logits = np.concatenate([np.zeros_like(logits), logits], axis=1)
            scores = np.exp(logits - logits.max(1, keepdims=True))
            columns.append(_spread(scores / scores.sum(1, keepdims=True), linear["classes"], tree))
        return np.concatenate(columns, axis=1).astype(np.float32)


def _spread(scores: np.ndarray, present: np.ndarray, tree: Tree) -> np.ndarray:
    """Returns float[n, classes], or [n, 1] for a label, from scores of the classes in training."""
    if tree["kind"] != SINGLE_LABEL:
        return np.where(present == 1, scores, 0).sum(1, keepdims=True)
    out = np.zeros((len(scores), tree["classes"]))
    out[:, present] = scores
    return out
