"""Builds a learner of the paper's family from its configuration."""

import dataclasses
import warnings

from nevis_stream.errors import BadInput, RunWarning
from nevis_stream.learners.config import BackboneConfig, BaselineConfig
from nevis_stream.learners.parts.augmentation import Augmentation
from nevis_stream.learners.parts.baseline import AuxiliaryTasks, Baseline
from nevis_stream.learners.parts.initialisation import (
    FromPretrained,
    FromPrevious,
    FromRandom,
    FromRelated,
    Initialisation,
)
from nevis_stream.learners.parts.model import Network
from nevis_stream.learners.parts.recipe import MAIN, OTHER, SCHEDULES, Recipe
from nevis_stream.learners.parts.relatedness import Neighbours
from nevis_stream.learners.parts.search import (
    RANDOM_FIRST,
    BayesianSearch,
    GridSearch,
    Halving,
    RandomSearch,
    Search,
)

_OPTIONS = [option.name for option in dataclasses.fields(BackboneConfig) if option.name != "name"]


def network(section: BackboneConfig, resolution: int, precision: str) -> Network:
    """Returns the network that a section of the configuration describes.

    Raises:
      BadInput: an unknown backbone or option; the message lists the valid ones.
    """
    values = {name: getattr(section, name) for name in _OPTIONS}
    options = {name: value for name, value in values.items() if value is not None}
    result = Network(section.name, tuple(sorted(options.items())), resolution, precision)
    result.backbone()
    return result


def initialisation(config: BaselineConfig) -> Initialisation:
    """Returns the initialisation that a configuration names."""
    name = config.initialisation
    if name == "random":
        return FromRandom()
    if name == "previous":
        return FromPrevious()
    if name == "pretrained":
        return _pretrained(config)
    pretrained = _pretrained(config) if name == "pretrained_or_related" else None
    space = "static" if name == "related_static" else "dynamic"
    return FromRelated(_neighbours(config), space, config.select.margin, pretrained)


def build(config: BaselineConfig) -> Baseline:
    """Builds a learner of the paper's family from a configuration without open values.

    Raises:
      BadInput: values that cannot be combined, or weights that are missing.
    """
    begin, which = initialisation(config), config.auxiliary.which
    names = (
        "learning_rate",
        "label_smoothing",
        *(("auxiliary_weight",) if which != "none" else ()),
    )
    spaces = {name: tuple(getattr(config.search, name)) for name in names}
    main, second = (
        network(config.network, config.network.resolution, config.network.precision),
        None,
    )
    if config.search.space == "large":
        spaces |= {"schedule": tuple(SCHEDULES), "batch": tuple(config.search.batch)}
        spaces |= {"crop": (True, False), "flip": (True, False)}
        if isinstance(begin, FromRandom):  # other starts have the network of an earlier task
            second = network(
                config.other_network, config.network.resolution, config.network.precision
            )
            spaces["network"] = (MAIN, OTHER)
    searches = {
        "grid": lambda: GridSearch(spaces),
        "random": lambda: RandomSearch(config.search.trials, spaces),
        "bayesian": lambda: BayesianSearch(config.search.trials, spaces),
    }
    search: Search = searches[config.search.method]()
    if config.ensemble > search.trials:
        trials = (
            "the combinations of the grid" if config.search.method == "grid" else "search.trials"
        )
        raise BadInput(
            f"config.ensemble is {config.ensemble}; it must be between 1 and {trials},"
            f" {search.trials}."
        )
    if config.search.method == "bayesian" and search.trials <= RANDOM_FIRST:
        warnings.warn(
            f"search.method bayesian draws its first {RANDOM_FIRST} trials at random, so with"
            f" search.trials {search.trials} it is a random search.",
            RunWarning,
            stacklevel=2,
        )
    frozen, pruning = config.train.frozen, config.search.pruning == "halving"
    if pruning and search.trials < 2:
        more = "values to the grid" if config.search.method == "grid" else "search.trials"
        raise BadInput(
            f"config.search.pruning: with {search.trials} trial per task there is nothing to"
            f" prune; set more {more}."
        )
    if frozen and (
        which != "none" or pruning or config.search.space == "large" or begin.needs_independent
    ):
        raise BadInput(
            "config.train.frozen cannot be combined with auxiliary tasks, ft_static,"
            " config.search.pruning or config.search.space=large: heads on a frozen backbone are"
            " trained on the current task only, and all trials at once."
        )
    return Baseline(
        begin,
        search,
        Recipe(
            network=main,
            steps=config.train.steps,
            validate_every=config.train.validate_every,
            augmentation=Augmentation(
                crop=config.augmentation.crop,
                min_area=config.augmentation.min_area,
                flip=config.augmentation.flip,
            ),
            largest_batch=config.train.largest_batch,
            warmup_share=config.train.warmup_share,
            weight_decay=config.train.weight_decay,
            second_network=second,
        ),
        data=AuxiliaryTasks(which, config.auxiliary.count),
        neighbours=_neighbours(config),
        ensemble=config.ensemble,
        halving=Halving() if pruning else None,
        frozen=frozen,
    )


def _neighbours(config: BaselineConfig) -> Neighbours:
    """Returns the score of relatedness that a configuration describes."""
    return Neighbours(config.select.neighbours, config.select.train_cap, config.select.dev_cap)


def _pretrained(config: BaselineConfig) -> FromPretrained:
    """Returns the initialisation from pre-trained weights.

    Raises:
      BadInput: the configuration names no weights.
    """
    # the config of a run directory has only the digest
    if not (config.pretrained.path or config.pretrained.digest):
        raise BadInput(
            f"config.initialisation {config.initialisation} starts from pre-trained weights, but"
            " --config.pretrained.path is missing. Make a file of weights with python -m"
            " launch.pretrain (docs/pretraining.md)."
        )
    return FromPretrained(config.pretrained.path, config.pretrained.flops, config.pretrained.digest)
