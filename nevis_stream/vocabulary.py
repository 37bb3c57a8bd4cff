"""The fixed words of the benchmark, each list defined once."""

from typing import NamedTuple

SPLITS = ("train", "dev", "dev_test", "test")
"""The parts of a task's data.

train: gradient steps; dev: choices within a task; dev_test: development of the learner; test:
final numbers.
"""

HELD_OUT_SPLITS = SPLITS[1:]
"""Those that no gradient step uses: evaluation caches hold answers on them."""

META_SPLITS = ("train", "test")
"""The tasks of S_Tr, on which a learner is developed, and those of S_Ts, on which it is judged."""

PHASES = ("pretrain", "train", "select", "validate", "predict")
"""What FLOPs are charged to."""

EVENT_KINDS = ("train", "predict")

TASK_KINDS = ("single_label", "multi_label")

KEEP = ("chosen", "all")
"""Which predictors a run keeps, or a command takes from a run.

"last_K" is valid for a run too (`nevis_stream.runner.last_kept`).
"""


class Judged(NamedTuple):
    """What a protocol judges: tasks of `meta_split`, on `split`. Every task is predicted on it."""

    meta_split: str
    split: str


PROTOCOLS = {"meta_test": Judged("test", "test"), "meta_train": Judged("train", "dev_test")}
"""Source: NEVIS'22, Algorithm 1."""
