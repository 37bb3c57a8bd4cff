"""The fixed vocabularies of the benchmark, each defined once."""

from typing import NamedTuple

SPLITS = ("train", "dev", "dev_test", "test")
"""The parts of a task's data.

train is for gradient steps, dev for choices within a task, dev_test for developing a learner, test
for final results.
"""

TASK_MARKERS = ("meta_train", "pretrained", "random", "unknown")
"""What may stand where a task's id is expected: all meta-train tasks, as what a backbone is trained
on; and what a predictor began with, if not with that of an earlier task."""

HELD_OUT_SPLITS = SPLITS[1:]
"""Splits that no gradient step uses; evaluation caches contain answers on them."""

POOL = "pool"
"""The samples among which an adaptive stream looks for the next task's training data.

No fixed stream has it. Its answers are never judged.
"""

ADAPTIVE = "adaptive:"
"""How the names of adaptive streams begin."""

META_SPLITS = ("train", "test")
"""The tasks of S_Tr, on which a learner is developed, and those of S_Ts, on which it is judged."""

PHASES = ("pretrain", "train", "select", "validate", "predict")
"""The phases to which FLOPs are charged."""

EVENT_KINDS = ("train", "predict")

SINGLE_LABEL, MULTI_LABEL = "single_label", "multi_label"
TASK_KINDS = (SINGLE_LABEL, MULTI_LABEL)

MOST_CLASSES = 10**6
"""Class ids are below it: a larger number is a date, a hash or the number of a file."""

YEARS = (0, 9999)
"""The first and the last year of a task."""

KEEP = ("chosen", "all")
"""Which predictors a run keeps, or a command takes from a run.

A run may also keep "last_K" (`nevis_stream.runner.parse_last_kept`).
"""


class Judged(NamedTuple):
    """What a protocol judges: tasks of `meta_split`, on `split`. Every task is predicted on it."""

    meta_split: str
    split: str


META_TRAIN, ALL_SEEN = "meta_train", "all_seen"
PROTOCOLS = {
    "meta_test": Judged("test", "test"),
    META_TRAIN: Judged("train", "dev_test"),
    ALL_SEEN: Judged("test", "test"),
}
"""Source of the first two: NEVIS'22, Algorithm 1. `all_seen` is `meta_test` with more predictions:
after each task the earlier ones are predicted again, by the model as it is then.
"""

ASSUMPTIONS = ("like_known",)
"""What may be assumed of new models."""
POPULATIONS = SAMPLES, SUPERPOPULATION = ("samples", "superpopulation")
"""What a mean is over: the samples that are there, or what they are drawn from."""
