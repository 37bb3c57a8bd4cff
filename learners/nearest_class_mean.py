"""Nearest class mean on pixels: the smallest useful learner, and an example of the interface.

It transfers nothing between tasks, has no trials, and reports its FLOPs with `ctx.charge`.
"""

from dataclasses import dataclass, field

import numpy as np

from nevis_stream.learner import Predictor
from nevis_stream.streams.task import SINGLE_LABEL

_DIFFERENCES = 2**24  # of pixels in memory at a time: 64 MB


@dataclass(frozen=True)
class NearestClassMean:
    """Answers with a softmax over negative distances to the mean image of each class."""

    resolution: int = field(
        default=8,
        metadata={"help": "side of the reduced images, in pixels", "range": (1, 4096)},
    )

    def init(self, ctx):
        return {}

    def train(self, task, state, ctx):
        pixels = self._pixels(task.train.images)
        members = task.train.labels
        if task.kind == SINGLE_LABEL:
            members = np.eye(task.num_classes, dtype=np.float32)[members]
        sides = [members.T] if task.kind == SINGLE_LABEL else [members.T, 1 - members.T]
        means = np.stack(
            [m @ pixels / np.maximum(m.sum(1, keepdims=True), 1) for m in sides]
        ).astype(np.float32)
        ctx.charge(2 * means.shape[0] * means.shape[1] * pixels.size)
        return state, [Predictor({"means": means, "kind": task.kind})]

    def predict(self, predictor, images, ctx):
        pixels, means = self._pixels(images), predictor["means"]
        distances = np.stack([_distances(pixels, side) for side in means])
        ctx.charge(3 * len(pixels) * means.size)
        if predictor["kind"] == SINGLE_LABEL:
            scores = np.exp(-20 * (distances[0] - distances[0].min(1, keepdims=True)))
            return scores / scores.sum(1, keepdims=True)
        return 1 / (1 + np.exp(20 * (distances[0] - distances[1])))

    def _pixels(self, images):
        return (
            images.center_cropped(self.resolution).reshape(len(images), -1).astype(np.float32) / 255
        )


def _distances(pixels, means):
    """Returns float32[n, classes]; a few images at a time, since all differences of many images
    to many classes do not fit into memory.
    """
    distances = np.empty((len(pixels), len(means)), np.float32)
    rows = max(1, _DIFFERENCES // max(1, means.size))
    for start in range(0, len(pixels), rows):
        chunk = slice(start, start + rows)
        distances[chunk] = ((pixels[chunk, None] - means) ** 2).mean(-1)
    return distances
