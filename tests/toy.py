"""Small data sets and learners that the tests share."""

import io
import time
from dataclasses import dataclass

import numpy as np
from PIL import Image

from nevis_stream.datasets.dataset import MULTI_LABEL, SINGLE_LABEL, DataSet, make_dataset
from nevis_stream.datasets.images import ArrayImages, EncodedImages, SourceImage
from nevis_stream.learner import Predictor
from nevis_stream.streams.stream import Stream


def blobs(dataset_id: str, classes: int = 3, n: int = 60, side: int = 8, seed: int = 0) -> DataSet:
    """Noisy squares, as bright as their class: easy to learn, never without error."""
    random = np.random.RandomState(seed)
    labels = random.randint(classes, size=n)
    images = (
        random.randint(0, 120, size=(n, side, side, 1))
        + (labels * 120 // classes)[:, None, None, None]
    )
    return make_dataset(
        dataset_id, SINGLE_LABEL, {"all": (ArrayImages(images.astype(np.uint8)), labels)}, classes
    )


def striped(dataset_id: str, labels: int = 3, n: int = 60, seed: int = 0) -> DataSet:
    """Multi-label images of varying size, kept as PNG files: label i lights up horizontal stripe
    i.
    """
    random = np.random.RandomState(seed)
    targets = random.randint(2, size=(n, labels))
    files = []
    for row in targets:
        height, width = random.randint(6, 14), random.randint(6, 14)
        stripes = np.repeat(row * 150, -(-height // labels))[:height, None, None]
        image = random.randint(0, 100, size=(height, width, 3)) + stripes
        with io.BytesIO() as buffer:
            Image.fromarray(image.astype(np.uint8)).save(buffer, "PNG")
            files.append(buffer.getvalue())
    images = EncodedImages(
        SourceImage(file, f"{dataset_id}-{i}.png") for i, file in enumerate(files)
    )
    return make_dataset(dataset_id, MULTI_LABEL, {"all": (images, targets)}, labels)


def stream() -> Stream:
    """Four tasks: two single-label, one multi-label, one repeat; the last two are the meta-test
    part.
    """
    first, second, third = (
        blobs("alpha", seed=1),
        blobs("beta", classes=4, seed=2),
        striped("gamma"),
    )
    return Stream.from_datasets(
        "toy", [first, second, third, first], [1992, 1998, 2005, 2015], meta_test=2
    )


def multi_label_stream() -> Stream:
    """Three multi-label tasks, the last one of the meta-test part."""
    tasks = [striped("gamma"), striped("delta", labels=4, seed=1), striped("epsilon", seed=2)]
    return Stream.from_datasets("multi_label", tasks, [1998, 2005, 2015], meta_test=1)


@dataclass(frozen=True)
class ToyLearner:
    """Class frequencies, perturbed a little by trial and by the past: numpy only, several trials
    and saved positions.
    """

    trials: int = 3
    steps: int = 4
    seconds: float = 0.0  # that a step takes

    def init(self, ctx):
        ctx.charge(7)
        return {"met": 0, "drift": np.zeros(2, np.float32)}

    def train(self, task, state, ctx):
        with ctx.phase("select"):
            ctx.charge(5)
            past = sum(float(ctx.predictor(name)["frequencies"].sum()) for name in ctx.past_tasks)
        labels = task.train.labels

        def trial(ctx, item):
            start, total = ctx.restore() or (0, np.zeros(task.num_classes))
            for step in range(start):
                ctx.log(step + 1, train_loss=1 / (step + 1), dev_error=0.5)
            for step in range(start, self.steps):
                ctx.charge(10 + item)
                time.sleep(self.seconds)
                total = (
                    total
                    + np.random.RandomState([ctx.seed & 0xFFFFFFFF, step]).uniform(
                        size=task.num_classes
                    )
                    / 50
                )
                ctx.progress(step + 1, self.steps)
                ctx.log(step + 1, train_loss=1 / (step + 1), dev_error=0.5)
                ctx.checkpoint(step + 1, lambda: total)  # noqa: B023 - called at once
            hits = (
                labels.mean(0)
                if labels.ndim == 2
                else np.bincount(labels, minlength=task.num_classes) / len(labels)
            )
            return {"frequencies": hits + total + past / 1000}

        results = ctx.map(trial, list(range(self.trials)))
        predictors = [
            Predictor(
                result | {"kind": task.kind},
                trial=i,
                step=self.steps,
                info={"dev_error": 0.5, "steps": self.steps},
            )
            for i, result in enumerate(results)
        ]
        state = {"met": state["met"] + 1, "drift": state["drift"] + 1}
        return state, predictors[::-1]

    def predict(self, predictor, images, ctx):
        ctx.charge(len(images))
        scores = np.tile(predictor["frequencies"], (len(images), 1))
        scores = scores + images.center_cropped(2).mean(axis=(1, 2, 3))[:, None] / 1000
        return (
            np.clip(scores, 0, 1)
            if predictor["kind"] == MULTI_LABEL
            else scores / scores.sum(1, keepdims=True)
        )
