"""RunConfig: the plain typed values that fully determine a run, and the budgets that fill what is left open.

A value of None is "as the budget says"; anything given on the command line or in a config file is kept.
"""

import copy
import json
from typing import Any

import ml_collections
from ml_collections import config_dict

import learners
from nevis_stream.errors import BadInput, unknown
from nevis_stream.learner import Learner
from nevis_stream.runner import KEEP
from nevis_stream.stream import PROTOCOLS

_CPU_SEARCH = {"method": "random", "learning_rate": (0.03, 0.3), "label_smoothing": (0.0, 0.2)}
_CPU_NETWORK = {"name": "resnet", "stage_sizes": (1, 1, 1), "width": 16, "stem": "strided", "resolution": 32}

BUDGETS: dict[str, dict[str, Any]] = {
    # At most 5 and 15 seconds a task of the stream pico on two cores; milder crops, since there are few steps.
    "tiny": {
        "search": _CPU_SEARCH | {"trials": 2},
        "train": {"steps": 120, "validate_every": 30},
        "network": _CPU_NETWORK,
        "augmentation": {"min_area": 0.5},
        "select": {"train_cap": 500, "dev_cap": 250, "margin": 2.0},
    },
    "small": {
        "search": _CPU_SEARCH | {"trials": 4},
        "train": {"steps": 240, "validate_every": 60},
        "network": _CPU_NETWORK,
        "augmentation": {"min_area": 0.5},
        "select": {"train_cap": 500, "dev_cap": 250, "margin": 2.0},
    },
    # Appendix C of NEVIS'22.
    "cheap": {
        "search": {
            "method": "grid",
            "trials": 4,
            "learning_rate": (1e-4, 1e-3, 1e-2, 1e-1),
            "label_smoothing": (0.15,),
        },
        "train": {"steps": 25_000, "validate_every": 1000},
        "network": {"name": "resnet18", "stem": "standard", "resolution": 64},
        "augmentation": {"min_area": 0.08},
        "select": {"train_cap": 10_000, "dev_cap": 5_000, "margin": 0.0},
    },
    # Section 4 of NEVIS'22, the reference code's default budget.
    "paper": {
        "search": {
            "method": "random",
            "trials": 16,
            "learning_rate": (1e-4, 1e-1),
            "label_smoothing": (0.0, 0.3),
        },
        "train": {"steps": 50_000, "validate_every": 1000},
        "network": {"name": "resnet34", "stem": "small", "resolution": 64},
        "augmentation": {"min_area": 0.08},
        "select": {"train_cap": 10_000, "dev_cap": 5_000, "margin": 0.0},
    },
}


SEARCHES = ("random", "grid", "bayesian")
_RANGES = {
    ("search", "trials"): (1, 10**6),
    ("select", "neighbours"): (1, 10**6),
    ("select", "train_cap"): (1, 10**9),
    ("select", "dev_cap"): (1, 10**9),
    ("select", "margin"): (0, 100),
    ("auxiliary", "count"): (1, 10**6),
    ("train", "steps"): (0, 10**8),
    ("train", "validate_every"): (1, 10**8),
    ("train", "largest_batch"): (1, 10**6),
    ("train", "warmup_share"): (0, 0.99),
    ("train", "weight_decay"): (0, 1e6),
    ("network", "resolution"): (1, 4096),
    ("augmentation", "min_area"): (1e-6, 1),
}


def default(learner: str) -> ml_collections.ConfigDict:
    """Returns the config of a learner with everything else open: budget `tiny` on the stream `pico`."""
    return ml_collections.ConfigDict(
        {
            "learner": learner,
            "stream": "pico",
            "budget": "tiny",
            "protocol": "meta_test",
            "seed": 0,
            "keep": "chosen",
            "search": {
                "method": config_dict.placeholder(str),
                "trials": config_dict.placeholder(int),
                "learning_rate": config_dict.placeholder(tuple),
                "label_smoothing": config_dict.placeholder(tuple),
                "auxiliary_weight": (0.1, 1.0),
            },
            "select": {
                "neighbours": 5,
                "train_cap": config_dict.placeholder(int),
                "dev_cap": config_dict.placeholder(int),
                "margin": config_dict.placeholder(float),
            },
            "auxiliary": {"which": "related", "count": 1},
            "ensemble": 1,
            "train": {
                "steps": config_dict.placeholder(int),
                "validate_every": config_dict.placeholder(int),
                "largest_batch": 512,
                "warmup_share": 0.1,
                "weight_decay": 1e-4,
            },
            "network": {
                "name": config_dict.placeholder(str),
                "resolution": config_dict.placeholder(int),
                "stage_sizes": config_dict.placeholder(tuple),
                "width": config_dict.placeholder(int),
                "stem": config_dict.placeholder(str),
                "hidden": config_dict.placeholder(tuple),
            },
            "augmentation": {"crop": True, "flip": True, "min_area": config_dict.placeholder(float)},
        }
    )


def resolve(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Returns the config with every open value filled from its budget; explicit values stay.

    Raises:
      BadInput: an unknown learner, budget, protocol or choice, or a value that makes no sense; valid ones are named.
    """
    resolved = ml_collections.ConfigDict(copy.deepcopy(config.to_dict()))
    for what, value, valid in (
        ("learner", resolved.learner, learners.names()),
        ("budget", resolved.budget, BUDGETS),
        ("protocol", resolved.protocol, PROTOCOLS),
        ("keep", resolved.keep, KEEP),
    ):
        if value not in valid:
            raise BadInput(unknown(what, value, valid))
    other_network = resolved.network.name is not None  # then the budget's stages and stem are not its
    for section, values in BUDGETS[resolved.budget].items():
        for name, value in values.items():
            if section == "network" and other_network and name != "resolution":
                continue
            if resolved[section][name] is None:
                resolved[section][name] = value
    _check(resolved)
    return resolved


def _check(config: ml_collections.ConfigDict) -> None:
    if config.search.method not in SEARCHES:
        raise BadInput(unknown("search.method", config.search.method, SEARCHES))
    if config.auxiliary.which not in ("related", "all", "random"):
        raise BadInput(unknown("auxiliary.which", config.auxiliary.which, ("related", "all", "random")))
    if not 1 <= config.ensemble <= config.search.trials:
        most = f"search.trials, {config.search.trials}"
        raise BadInput(f"config.ensemble is {config.ensemble}; it must lie between 1 and {most}.")
    for (section, name), (low, high) in _RANGES.items():
        value = config[section][name]
        if not low <= value <= high:
            raise BadInput(f"config.{section}.{name} is {value}; it must lie between {low} and {high}.")
    for name, (low, high) in {
        "learning_rate": (1e-12, 1e6),
        "label_smoothing": (0, 1),
        "auxiliary_weight": (0, 1e6),
    }.items():
        values = config.search[name]
        if config.search.method != "grid" and len(values) != 2:
            raise BadInput(f"config.search.{name} is {values}; {config.search.method} search needs (low, high).")
        if not values or not all(isinstance(value, int | float) and low <= value <= high for value in values):
            raise BadInput(f"config.search.{name} is {values}; it must hold numbers between {low} and {high}.")


def flat(config: ml_collections.ConfigDict, prefix: str = "") -> list[tuple[str, Any]]:
    """Returns (dotted name, value) of every value."""
    pairs = []
    for name, value in config.items():
        if isinstance(value, ml_collections.ConfigDict):
            pairs += flat(value, f"{prefix}{name}.")
        else:
            pairs.append((prefix + name, value))
    return pairs


def to_json(config: ml_collections.ConfigDict) -> dict[str, Any]:
    """Returns the values as plain JSON: tuples become lists."""
    return json.loads(json.dumps(config.to_dict()))


def build(config: ml_collections.ConfigDict) -> Learner:
    """Builds the learner that a resolved config names."""
    return learners.build(config.learner, config)
