"""Budgets: presets of the configuration of the paper's family of learners, by dotted name.

A budget fills in values that are open (None) and never changes a value that the user set.
"""

from collections.abc import Mapping
from typing import Any

# tiny takes at most 5 seconds per task of the stream pico on two cores, small at most 15; crops are
# milder because there are few steps.
_CPU = {
    "search.method": "random",
    "search.learning_rate": (0.03, 0.3),
    "search.label_smoothing": (0.0, 0.2),
    "search.space": "small",
    "search.batch": (8, 16, 32),
    "network.name": "resnet",
    "network.stage_sizes": (1, 1, 1),
    "network.width": 16,
    "network.stem": "strided",
    "network.resolution": 32,
    "other_network.name": "vgg11",
    "other_network.stage_sizes": (1, 1, 1),
    "other_network.width": 16,
    "augmentation.min_area": 0.5,
    "select.train_cap": 500,
    "select.dev_cap": 250,
    "select.margin": 4.0,
}
_PUBLISHED = {
    "search.space": "small",
    "network.resolution": 64,
    "other_network.name": "vgg11",
    "augmentation.min_area": 0.08,
    "select.train_cap": 10_000,
    "select.dev_cap": 5_000,
    "select.margin": 0.0,
    "train.validate_every": 1000,
}

BUDGETS: dict[str, Mapping[str, Any]] = {
    "tiny": _CPU | {"search.trials": 2, "train.steps": 120, "train.validate_every": 30},
    "small": _CPU | {"search.trials": 4, "train.steps": 240, "train.validate_every": 60},
    # Appendix C of NEVIS'22.
    "cheap": _PUBLISHED
    | {
        "search.method": "grid",
        "search.trials": 4,
        "search.learning_rate": (1e-4, 1e-3, 1e-2, 1e-1),
        "search.label_smoothing": (0.15,),
        "search.batch": (16, 32, 64, 128),
        "train.steps": 25_000,
        "network.name": "resnet18",
        "network.stem": "standard",
    },
    # Section 4 of NEVIS'22, the reference code's default budget.
    "paper": _PUBLISHED
    | {
        "search.method": "random",
        "search.trials": 16,
        "search.learning_rate": (1e-4, 1e-1),
        "search.label_smoothing": (0.0, 0.3),
        "search.batch": (16, 32, 64, 128, 256, 512),
        "train.steps": 50_000,
        "network.name": "resnet34",
        "network.stem": "small",
    },
}
