"""RunConfig: the plain typed values that fully determine a run, and the budgets that fill what is
left open.

A value of None is "as the budget says"; anything given on the command line or in a config file is
kept.
"""

import copy
import json
from pathlib import Path
from typing import Any

import ml_collections
from ml_collections import config_dict

import learners
from learners.parts import weights
from learners.parts.build import INITIALISATIONS
from nevis_stream.errors import BadInput, unknown
from nevis_stream.learner import Learner
from nevis_stream.runner import last_kept
from nevis_stream.vocabulary import PROTOCOLS

_CPU_SEARCH = {
    "method": "random",
    "learning_rate": (0.03, 0.3),
    "label_smoothing": (0.0, 0.2),
    "batch": (8, 16, 32),
}
_CPU_NETWORK = {
    "name": "resnet",
    "stage_sizes": (1, 1, 1),
    "width": 16,
    "stem": "strided",
    "resolution": 32,
}
# BHPO's large space: another architecture
_OTHER_CPU_NETWORK = {"name": "vgg11", "stage_sizes": (1, 1, 1), "width": 16}

BUDGETS: dict[str, dict[str, Any]] = {
    # At most 5 and 15 seconds a task of the stream pico on two cores; milder crops, since there are
    # few steps.
    "tiny": {
        "search": _CPU_SEARCH | {"trials": 2},
        "train": {"steps": 120, "validate_every": 30},
        "network": _CPU_NETWORK,
        "other_network": _OTHER_CPU_NETWORK,
        "augmentation": {"min_area": 0.5},
        "select": {"train_cap": 500, "dev_cap": 250, "margin": 4.0},
    },
    "small": {
        "search": _CPU_SEARCH | {"trials": 4},
        "train": {"steps": 240, "validate_every": 60},
        "network": _CPU_NETWORK,
        "other_network": _OTHER_CPU_NETWORK,
        "augmentation": {"min_area": 0.5},
        "select": {"train_cap": 500, "dev_cap": 250, "margin": 4.0},
    },
    # Appendix C of NEVIS'22.
    "cheap": {
        "search": {
            "method": "grid",
            "trials": 4,
            "learning_rate": (1e-4, 1e-3, 1e-2, 1e-1),
            "label_smoothing": (0.15,),
            "batch": (16, 32, 64, 128),
        },
        "train": {"steps": 25_000, "validate_every": 1000},
        "network": {"name": "resnet18", "stem": "standard", "resolution": 64},
        "other_network": {"name": "vgg11"},
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
            "batch": (16, 32, 64, 128, 256, 512),
        },
        "train": {"steps": 50_000, "validate_every": 1000},
        "network": {"name": "resnet34", "stem": "small", "resolution": 64},
        "other_network": {"name": "vgg11"},
        "augmentation": {"min_area": 0.08},
        "select": {"train_cap": 10_000, "dev_cap": 5_000, "margin": 0.0},
    },
}


SEARCHES = ("random", "grid", "bayesian")
GRID_TRIALS = (
    "grid search takes every combination of its values, whatever search.trials is: leave"
    " search.trials out and give the values (search.learning_rate, search.label_smoothing), or take"
    " search.method random."
)
_SEARCHED = {"learning_rate": (1e-12, 1e6), "label_smoothing": (0, 1), "auxiliary_weight": (0, 1e6)}
_LARGEST_BATCH = 2**16
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


def _network() -> dict[str, Any]:
    """Returns the open keys of a network: its name and its options, of which each backbone has
    some.
    """
    kinds = {
        "name": str,
        "stage_sizes": tuple,
        "width": int,
        "stem": str,
        "hidden": tuple,
        "block": str,
        "padding": str,
    }
    kinds |= {"norm": bool, "patch": int, "depth": int, "heads": int}
    return {name: config_dict.placeholder(kind) for name, kind in kinds.items()}


def default(learner: str) -> ml_collections.ConfigDict:
    """Returns the config of a learner with everything else open: budget `tiny` on the stream
    `pico`.
    """
    return ml_collections.ConfigDict(
        {
            "learner": learner,
            "label": "",
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
                "space": "small",
                "batch": config_dict.placeholder(tuple),
                "pruning": "none",
            },
            "initialisation": config_dict.placeholder(str),
            "pretrained": {"path": config_dict.placeholder(str)},
            "select": {
                "neighbours": 5,
                "train_cap": config_dict.placeholder(int),
                "dev_cap": config_dict.placeholder(int),
                "margin": config_dict.placeholder(float),
            },
            "auxiliary": {"which": config_dict.placeholder(str), "count": 1},
            "ensemble": 1,
            "train": {
                "steps": config_dict.placeholder(int),
                "validate_every": config_dict.placeholder(int),
                "largest_batch": 512,
                "warmup_share": 0.1,
                "weight_decay": 1e-4,
                "frozen": False,
            },
            "network": (
                {"resolution": config_dict.placeholder(int), "precision": "float32"} | _network()
            ),
            "other_network": _network(),
            "augmentation": {
                "crop": True,
                "flip": True,
                "min_area": config_dict.placeholder(float),
            },
        }
    )


def resolve(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Returns the config with every open value filled from its budget; explicit values stay.

    Raises:
      BadInput: an unknown learner, budget, protocol or choice, or a value that makes no sense;
        valid ones are named.
    """
    _check_keys(config)
    resolved = ml_collections.ConfigDict(copy.deepcopy(config.to_dict()))
    for what, value, valid in (
        ("learner", resolved.learner, learners.names()),
        ("budget", resolved.budget, BUDGETS),
        ("protocol", resolved.protocol, PROTOCOLS),
        ("search.method", resolved.search.method or SEARCHES[0], SEARCHES),
        ("search.space", resolved.search.space, ("small", "large")),
        ("search.pruning", resolved.search.pruning, ("none", "halving")),
        ("network.precision", resolved.network.precision, ("float32", "bfloat16")),
        (
            "auxiliary.which",
            resolved.auxiliary.which or "none",
            ("none", "related", "all", "random"),
        ),
        ("initialisation", resolved.initialisation or INITIALISATIONS[0], INITIALISATIONS),
    ):
        if value not in valid:
            raise BadInput(unknown(what, value, valid))
    last_kept(resolved.keep)
    if resolved.pretrained.path:
        _bring(resolved)
    named = [
        section for section in ("network", "other_network") if resolved[section].name is not None
    ]
    trials = resolved.search.trials
    for section, values in _of_budget(resolved).items():
        for name, value in values.items():
            # another network: the budget's stages and stem are not its
            if section in named and name != "resolution":
                continue
            if resolved[section][name] is None:
                resolved[section][name] = value
    if resolved.search.method == "grid" and trials not in (
        None,
        BUDGETS[resolved.budget]["search"]["trials"],
    ):
        raise BadInput(f"config.search.trials is {trials}; {GRID_TRIALS}")
    _check(resolved)
    resolved.label = resolved.label or resolved.learner
    return resolved


def _check_keys(config: ml_collections.ConfigDict) -> None:
    """A config file may make any keys: those that are missing or unknown are named."""
    keys, valid = dict(flat(config)), dict(flat(default("")))
    for key in keys:
        # a resolved config tells more of the weights
        if key not in valid and not key.startswith("pretrained."):
            raise BadInput(unknown("config key", key, valid))
    for key in valid:
        if key not in keys:
            raise BadInput(
                f"config.{key} is missing: begin with run_config.default, as"
                " experiments/configs/indep.py does."
            )


def _of_budget(config: ml_collections.ConfigDict) -> dict[str, dict[str, Any]]:
    """Returns the budget's values; where they are a grid and another search is asked for, the
    ranges that the grid spans.
    """
    values = BUDGETS[config.budget]
    search = values["search"]
    if search["method"] != "grid" or config.search.method in (None, "grid"):
        return values
    return values | {
        "search": (
            search
            | {name: (min(search[name]), max(search[name])) for name in _SEARCHED if name in search}
        )
    }


def _bring(config: ml_collections.ConfigDict) -> None:
    """Fills in what the file of pre-trained weights says of itself: digest, cost, a stand-in's name
    in the label, the network.

    A network that the config names stays; it is compared when the weights are loaded.
    """
    path = Path(config.pretrained.path)
    facts = weights.read_facts(path)
    config.pretrained = {"path": str(path), "digest": weights.digest(path)} | {
        name: getattr(facts, name) for name in ("flops", "trained_on", "stand_in")
    }
    if config.network.name is None:
        options = {
            name: tuple(v) if isinstance(v, list) else v
            for name, v in facts.network["options"].items()
        }
        config.network.update(name=facts.network["name"], **options)
        config.network.resolution = config.network.resolution or facts.network["resolution"]
    if facts.stand_in and "stand-in" not in config.label:
        config.label = (
            f"{config.label or config.learner} (stand-in: pre-trained on {facts.trained_on}, not"
            f" {facts.stand_in})"
        )


def _check(config: ml_collections.ConfigDict) -> None:
    if config.search.pruning != "none" and config.search.method == "bayesian":
        raise BadInput(
            "config.search.pruning: trials of a Bayesian search come one after the other; there is"
            " none to prune."
        )
    steps, every = config.train.steps, config.train.validate_every
    if config.search.pruning != "none" and steps <= every:
        raise BadInput(
            "config.search.pruning: trials are compared at looks at the dev split; with"
            f" train.steps {steps} and train.validate_every {every} there is none before the end."
            " Give a smaller config.train.validate_every."
        )
    if config.search.space == "large" and config.search.method == "grid":
        raise BadInput(
            "config.search.space: a grid over the large space is endless; take search.method random"
            " or bayesian."
        )
    if config.ensemble < 1:
        raise BadInput(
            f"config.ensemble is {config.ensemble}; it must lie between 1 and the number of trials."
        )
    for (section, name), (low, high) in _RANGES.items():
        value = config[section][name]
        if not low <= value <= high:
            raise BadInput(
                f"config.{section}.{name} is {value}; it must lie between {low} and {high}."
            )
    batches = config.search.batch
    if not batches or not all(
        type(size) is int and 1 <= size <= _LARGEST_BATCH for size in batches
    ):
        raise BadInput(
            f"config.search.batch is {batches}; it must hold whole numbers between 1 and"
            f" {_LARGEST_BATCH}."
        )
    for name, (low, high) in _SEARCHED.items():
        values = config.search[name]
        if config.search.method != "grid" and len(values) != 2:
            raise BadInput(
                f"config.search.{name} is {values}; {config.search.method} search needs (low,"
                " high)."
            )
        if not values or not all(
            isinstance(value, int | float) and low <= value <= high for value in values
        ):
            raise BadInput(
                f"config.search.{name} is {values}; it must hold numbers between {low} and {high}."
            )


def flat(config: ml_collections.ConfigDict, prefix: str = "") -> list[tuple[str, Any]]:
    """Returns (dotted name, value) of every value."""
    pairs = []
    for name, value in config.items():
        if isinstance(value, ml_collections.ConfigDict):
            pairs += flat(value, f"{prefix}{name}.")
        else:
            pairs.append((prefix + name, value))
    return pairs


def type_of(config: ml_collections.ConfigDict, key: str) -> type:
    """Returns the type of the value that a dotted key must have."""
    *sections, name = key.split(".")
    for section in sections:
        config = config[section]
    return config.get_type(name)


def not_of_type(config: ml_collections.ConfigDict, key: str, text: str) -> str:
    """Returns what to say of a text that cannot be the value of a dotted key."""
    kind, value = type_of(config, key), dict(flat(config))[key]
    example = ", (0.01,0.1) say" if kind is tuple else ""
    otherwise = "as the budget says" if value is None else value
    return (
        f"the value must be of type {kind.__name__}{example}, not {text!r} (default: {otherwise})."
    )


def to_json(config: ml_collections.ConfigDict) -> dict[str, Any]:
    """Returns the values that a run is known by, as plain JSON: tuples become lists.

    Of pre-trained weights these are the digest and the facts of the file; where it lies may differ
    from start to start.
    """
    values = json.loads(json.dumps(config.to_dict()))
    values["pretrained"]["path"] = None
    return values


def build(config: ml_collections.ConfigDict) -> Learner:
    """Builds the learner that a resolved config names."""
    return learners.build(config.learner, config)
