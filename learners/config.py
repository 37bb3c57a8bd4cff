"""The configuration of the paper's family of learners, initialisation × training data × search, and
its presets.

A value of None is open: the learner's row of the table (learners.table) or the preset sets it. A
preset never changes a value that the user set.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from nevis_stream.errors import BadInput

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
    "select.margin": 0.0,
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

PRESETS: dict[str, Mapping[str, Any]] = {
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


Initialisations = Literal[
    "random", "previous", "related", "related_static", "pretrained", "pretrained_or_related"
]
_GRID_TRIALS = (
    "a grid search runs every combination of its values, so it does not need search.trials. Either"
    " leave search.trials out and set the values (search.learning_rate, search.label_smoothing), or"
    " use search.method random."
)
_RANGES = ("search.learning_rate", "search.label_smoothing", "search.auxiliary_weight")


def _option(default: Any, help: str, low: float | None = None, high: float | None = None, **more):
    limits = {} if low is None else {"range": (low, high)}
    return field(default=default, metadata={"help": help} | limits | more)


@dataclass(frozen=True)
class SearchConfig:
    """How the hyper-parameters of the trials are chosen."""

    method: Literal["random", "grid", "bayesian"] | None = _option(
        None, "how trials are chosen", label=True
    )
    trials: int | None = _option(
        None, "number of trials per task; for a grid, the number of combinations", 1, 10**6
    )
    learning_rate: tuple[float, ...] | None = _option(
        None, "(low, high), drawn log-uniformly; for a grid, the values", 1e-12, 1e6
    )
    label_smoothing: tuple[float, ...] | None = _option(
        None, "(low, high); for a grid, the values", 0, 1
    )
    auxiliary_weight: tuple[float, ...] = _option(
        (0.1, 1.0),
        "(low, high) of the weight of the auxiliary tasks' loss; for a grid, the values",
        0,
        1e6,
    )
    space: Literal["small", "large"] | None = _option(
        None,
        "`large` also searches schedule, batch size, architecture, crop and flip",
        label=True,
    )
    batch: tuple[int, ...] | None = _option(None, "batch sizes of the large space", 1, 2**16)
    pruning: Literal["none", "halving"] = _option(
        "none", "`halving` stops the worse trials early", label=True
    )


@dataclass(frozen=True)
class PretrainedConfig:
    """Pre-trained weights to start from; all facts but the path are read from the file."""

    path: str | None = _option(None, "file of weights that launch.pretrain wrote")
    digest: str = _option("", "digest of the file; read from it")
    flops: int = _option(0, "FLOPs of pre-training; read from the file")
    trained_on: str = _option("", "data that the weights were trained on; read from the file")
    stand_in: str = _option("", "data set that the weights replace; read from the file")


@dataclass(frozen=True)
class SelectConfig:
    """How the relatedness of tasks is measured."""

    neighbours: int = _option(5, "k of the nearest-neighbour classifier", 1, 10**6)
    train_cap: int | None = _option(None, "largest number of training images to compare", 1, 10**9)
    dev_cap: int | None = _option(None, "largest number of dev images to compare", 1, 10**9)
    margin: float | None = _option(
        None,
        "0: start from the task with the highest score, as in the paper; else of all within this"
        " many standard errors of it from the latest",
        0,
        100,
        label=True,
    )


@dataclass(frozen=True)
class AuxiliaryConfig:
    """Earlier tasks that each trial also trains on."""

    which: Literal["none", "related", "all", "random"] | None = _option(
        None, "which earlier tasks are trained on too", label=True
    )
    count: int = _option(1, "number of these earlier tasks", 1, 10**6, label=True)


@dataclass(frozen=True)
class TrainConfig:
    """How each trial is trained."""

    steps: int | None = _option(None, "updates per trial", 0, 10**8)
    validate_every: int | None = _option(
        None, "updates between evaluations on the dev split", 1, 10**8
    )
    largest_batch: int = _option(512, "largest batch size, B in NEVIS'22, eq. 4", 1, 10**6)
    warmup_share: float = _option(
        0.1, "share of the updates in which the learning rate warms up", 0, 0.99
    )
    weight_decay: float = _option(1e-4, "weight of the L2 penalty on kernels", 0, 1e6)
    frozen: bool = _option(False, "train only linear heads, on a frozen backbone", label=True)


@dataclass(frozen=True)
class BackboneConfig:
    """A backbone, whose options depend on its name (docs/learners.md)."""

    name: str | None = _option(None, "mlp, resnet18, vgg11, vit_b8, nfnet_f0, …")
    stage_sizes: tuple[int, ...] | None = _option(None, "blocks in each stage")
    width: int | None = _option(None, "channels of the first stage; for a ViT, of a token")
    stem: str | None = _option(None, "ResNet: standard, small or strided")
    hidden: tuple[int, ...] | None = _option(None, "widths of hidden layers (mlp, vgg)")
    block: str | None = _option(None, "ResNet: basic or bottleneck")
    padding: str | None = _option(None, "ResNet: same or torch")
    norm: bool | None = _option(None, "VGG: whether it has batch normalisation")
    patch: int | None = _option(None, "ViT: side of a patch in pixels")
    depth: int | None = _option(None, "ViT: number of blocks")
    heads: int | None = _option(None, "ViT: number of attention heads")


@dataclass(frozen=True)
class NetworkConfig(BackboneConfig):
    """The network: a backbone, its input and its precision."""

    resolution: int | None = _option(None, "side of the input in pixels", 1, 4096)
    precision: Literal["float32", "bfloat16"] = _option(
        "float32", "precision of the backbone's arithmetic"
    )


@dataclass(frozen=True)
class AugmentationConfig:
    """How training images are augmented."""

    crop: bool = _option(True, "random resized crops")
    flip: bool = _option(True, "random horizontal flips")
    min_area: float | None = _option(None, "smallest share of the image in a crop", 1e-6, 1)


@dataclass(frozen=True)
class BaselineConfig:
    """A learner of the paper's family."""

    PRESETS: ClassVar = PRESETS
    FORMER: ClassVar = {"select.margin": 4.0}  # what `tiny` and `small` had

    initialisation: Initialisations | None = _option(
        None, "parameters that a task starts from", label=True
    )
    search: SearchConfig = SearchConfig()
    pretrained: PretrainedConfig = PretrainedConfig()
    select: SelectConfig = SelectConfig()
    auxiliary: AuxiliaryConfig = AuxiliaryConfig()
    ensemble: int = _option(
        1, "number of best trials whose answers are averaged", 1, 10**6, label=True
    )
    train: TrainConfig = TrainConfig()
    network: NetworkConfig = NetworkConfig()
    other_network: BackboneConfig = BackboneConfig()
    augmentation: AugmentationConfig = AugmentationConfig()

    @staticmethod
    def fill(values: Mapping[str, Any], preset: Mapping[str, Any]) -> dict[str, Any]:
        """Returns values by dotted name, with open ones filled in from the weights and a preset.

        Raises:
          BadInput: a file without weights, or values that cannot be combined.
        """
        filled, preset = _with_weights(values), dict(preset)
        if preset["search.method"] == "grid" and filled["search.method"] not in (None, "grid"):
            for name in _RANGES:  # the ranges that the grid spans
                if name in preset:
                    preset[name] = (min(preset[name]), max(preset[name]))
        for section in ("network", "other_network"):
            # the preset's options of a network fit only the preset's network
            if filled[f"{section}.name"] is not None:
                resolution = f"{section}.resolution"
                preset = {
                    name: value
                    for name, value in preset.items()
                    if name == resolution or not name.startswith(f"{section}.")
                }
        if (filled["search.method"] or preset["search.method"]) == "grid":
            del preset["search.trials"]
        filled |= {name: value for name, value in preset.items() if filled[name] is None}
        _check(filled)
        if filled["search.method"] == "grid":
            spans = _RANGES if filled["auxiliary.which"] != "none" else _RANGES[:2]
            combinations = math.prod(len(filled[name]) for name in spans)
            if filled["search.trials"] not in (None, combinations):
                raise BadInput(f"config.search.trials is {filled['search.trials']}; {_GRID_TRIALS}")
            filled["search.trials"] = combinations
        return filled

    @property
    def remark(self) -> str:
        """The part of the label that says which data set the weights replace, if any."""
        if not self.pretrained.stand_in:
            return ""
        facts = self.pretrained
        return f"(stand-in: pre-trained on {facts.trained_on}, not {facts.stand_in})"


def _with_weights(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values with the facts of the file of weights.

    If the user names a network it is kept, and compared when the weights are loaded.
    """
    if not values["pretrained.path"]:
        return dict(values)
    from nevis_stream.learners.parts import weights

    path = Path(values["pretrained.path"])
    facts, filled = weights.read_facts(path), dict(values)
    filled |= {"pretrained.path": str(path), "pretrained.digest": weights.digest(path)}
    for name in ("flops", "trained_on", "stand_in"):
        filled[f"pretrained.{name}"] = getattr(facts, name)
    if values["network.name"] is None:
        filled["network.name"] = facts.network["name"]
        filled["network.resolution"] = values["network.resolution"] or facts.network["resolution"]
        for name, value in facts.network["options"].items():
            filled[f"network.{name}"] = tuple(value) if isinstance(value, list) else value
    return filled


def _check(values: Mapping[str, Any]) -> None:
    """Refuses values that cannot be combined."""
    method, pruning = values["search.method"], values["search.pruning"]
    steps, every = values["train.steps"], values["train.validate_every"]
    if pruning != "none" and method == "bayesian":
        raise BadInput(
            "config.search.pruning: a Bayesian search runs one trial after the other, so there"
            " are no trials to compare and prune."
        )
    if pruning != "none" and steps <= every:
        raise BadInput(
            "config.search.pruning: trials are compared when they are evaluated on the dev"
            f" split, and with train.steps {steps} and train.validate_every {every} that happens"
            " only at the end. Set a smaller config.train.validate_every."
        )
    if values["search.space"] == "large" and method == "grid":
        raise BadInput(
            "config.search.space: the large space has too many combinations for a grid; use"
            " search.method random or bayesian."
        )
    for name in _RANGES:
        if not values[name]:
            raise BadInput(f"config.{name} is {values[name]}; it must contain a number.")
        if method != "grid" and len(values[name]) != 2:
            raise BadInput(f"config.{name} is {values[name]}; {method} search needs (low, high).")
        if method != "grid" and values[name][0] > values[name][1]:
            raise BadInput(f"config.{name} is {values[name]}, (low, high): low is above high.")
    if not values["search.batch"]:
        raise BadInput(
            f"config.search.batch is {values['search.batch']}; it must contain a whole number."
        )
