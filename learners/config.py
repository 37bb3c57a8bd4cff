"""The configuration of the paper's family of learners: initialisation × training data × search.

A value of None is open: the learner's row of the table (learners.table) or the budget sets it.
"""

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from nevis_stream.errors import BadInput
from nevis_stream.learners import fields
from nevis_stream.learners.budgets import BUDGETS

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
        None, "scores within this many standard errors of the highest count as equal to it", 0, 100
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

    BUDGETS: ClassVar = BUDGETS

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

    def fill(self, budget: str) -> "BaselineConfig":
        """Returns the configuration with open values filled in from the weights and the budget.

        Raises:
          BadInput: a file without weights, or values that cannot be combined.
        """
        values = fields.flat(asdict(self._with_weights()))
        preset = dict(BUDGETS[budget])
        if preset["search.method"] == "grid" and values["search.method"] not in (None, "grid"):
            for name in _RANGES:  # the ranges that the grid spans
                if name in preset:
                    preset[name] = (min(preset[name]), max(preset[name]))
        for section in ("network", "other_network"):
            # the budget's options of a network fit only the budget's network
            if values[f"{section}.name"] is not None:
                resolution = f"{section}.resolution"
                preset = {
                    k: v for k, v in preset.items() if k == resolution or section != _section(k)
                }
        if (values["search.method"] or preset["search.method"]) == "grid":
            del preset["search.trials"]
        values |= {name: value for name, value in preset.items() if values[name] is None}
        config = fields.make(BaselineConfig, values)
        config._check()
        if config.search.method != "grid":
            return config
        if config.search.trials not in (None, config._combinations):
            raise BadInput(f"config.search.trials is {config.search.trials}; {_GRID_TRIALS}")
        return replace(config, search=replace(config.search, trials=config._combinations))

    @property
    def _combinations(self) -> int:
        count = len(self.search.learning_rate) * len(self.search.label_smoothing)
        return count * (1 if self.auxiliary.which == "none" else len(self.search.auxiliary_weight))

    def _with_weights(self) -> "BaselineConfig":
        """Returns the configuration with the facts of the file of weights.

        If the user names a network it is kept, and compared when the weights are loaded.
        """
        if not self.pretrained.path:
            return self
        from nevis_stream.learners.parts import weights

        path = Path(self.pretrained.path)
        facts, network = weights.read_facts(path), self.network
        names = ("flops", "trained_on", "stand_in")
        pretrained = PretrainedConfig(
            str(path), weights.digest(path), **{name: getattr(facts, name) for name in names}
        )
        if network.name is None:
            options = {
                name: tuple(value) if isinstance(value, list) else value
                for name, value in facts.network["options"].items()
            }
            resolution = network.resolution or facts.network["resolution"]
            network = replace(network, name=facts.network["name"], resolution=resolution, **options)
        return replace(self, pretrained=pretrained, network=network)

    @property
    def remark(self) -> str:
        """The part of the label that says which data set the weights replace, if any."""
        if not self.pretrained.stand_in:
            return ""
        facts = self.pretrained
        return f"(stand-in: pre-trained on {facts.trained_on}, not {facts.stand_in})"

    def _check(self) -> None:
        search, train = self.search, self.train
        if search.pruning != "none" and search.method == "bayesian":
            raise BadInput(
                "config.search.pruning: a Bayesian search runs one trial after the other, so there"
                " are no trials to compare and prune."
            )
        if search.pruning != "none" and train.steps <= train.validate_every:
            raise BadInput(
                "config.search.pruning: trials are compared when they are evaluated on the dev"
                f" split, and with train.steps {train.steps} and train.validate_every"
                f" {train.validate_every} that happens only at the end. Set a smaller"
                " config.train.validate_every."
            )
        if search.space == "large" and search.method == "grid":
            raise BadInput(
                "config.search.space: the large space has too many combinations for a grid; use"
                " search.method random or bayesian."
            )
        for name in _RANGES:
            values = getattr(search, _name(name))
            if not values:
                raise BadInput(f"config.{name} is {values}; it must contain a number.")
            if search.method != "grid" and len(values) != 2:
                raise BadInput(
                    f"config.{name} is {values}; {search.method} search needs (low, high)."
                )
        if not search.batch:
            raise BadInput(
                f"config.search.batch is {search.batch}; it must contain a whole number."
            )


def _section(name: str) -> str:
    return name.partition(".")[0]


def _name(name: str) -> str:
    return name.partition(".")[2]
