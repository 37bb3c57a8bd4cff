"""The paper's family of learners: an initialisation, a search and a training recipe, as a
configuration names them.
"""

import dataclasses
import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nevis_stream.datasets.images import Images
from nevis_stream.errors import BadInput, RunWarning
from nevis_stream.learner import Context, Predictor, State
from nevis_stream.learners.config import BackboneConfig, BaselineConfig
from nevis_stream.learners.parts import linear_probe
from nevis_stream.learners.parts.augmentation import Augmentation
from nevis_stream.learners.parts.fit import train_trial
from nevis_stream.learners.parts.initialisation import (
    FromPretrained,
    FromPrevious,
    FromRandom,
    FromRelated,
    Initialisation,
    Start,
)
from nevis_stream.learners.parts.model import (
    Network,
    choose_head_size,
    initialise_program,
    predict_probabilities,
)
from nevis_stream.learners.parts.recipe import (
    MAIN,
    OTHER,
    SCHEDULES,
    Recipe,
    count_prediction_flops,
    count_training_flops,
    list_programs,
)
from nevis_stream.learners.parts.relatedness import Neighbours, embed
from nevis_stream.learners.parts.search import (
    RANDOM_FIRST,
    BayesianSearch,
    GridSearch,
    Halving,
    Hyper,
    RandomSearch,
    Search,
)
from nevis_stream.storage.checkpoint import Tree
from nevis_stream.streams.task import TaskView

ENSEMBLE_TEMPERATURE = 0.1
_OPTIONS = [option.name for option in dataclasses.fields(BackboneConfig) if option.name != "name"]


@dataclass(frozen=True)
class AuxiliaryTasks:
    """Chooses earlier tasks, the helpers, that trials also train on (NEVIS'22, Appendix G).

    Attributes:
      which: "none"; "related", those with the highest scores of relatedness; "all"; or "random",
        drawn anew at each update (Figure 23).
      count: number of tasks at each update, unless all are taken.
    """

    which: str = "none"
    count: int = 1

    @property
    def by_relatedness(self) -> bool:
        """Whether the choice needs scores, which are computed if the initialisation has none."""
        return self.which == "related"

    @property
    def drawn(self) -> int | None:
        """How many of the chosen tasks are drawn at each update; None: all are used."""
        return self.count if self.which == "random" else None

    def choose(self, ctx: Context, scores: Mapping[str, float]) -> Sequence[str]:
        """Returns ids of earlier tasks; `scores` are their scores of relatedness."""
        if self.which != "related":
            return () if self.which == "none" else ctx.past_tasks
        latest_first = reversed(ctx.past_tasks)
        return sorted(latest_first, key=lambda task_id: -scores.get(task_id, 0.0))[: self.count]

    def most(self, earlier: int) -> int:
        """Returns the largest number of tasks that an update uses of `earlier` ones."""
        return {"none": 0, "all": earlier}.get(self.which, min(self.count, earlier))


@dataclass(frozen=True)
class Baseline:
    """A learner that runs several trials per task and keeps the one with the lowest dev error.

    Attributes:
      initialisation: chooses the parameters that the trials start from.
      search: chooses their hyper-parameters.
      recipe: how each trial is trained.
      data: chooses the helpers, the earlier tasks that they are also trained on.
      neighbours: scores the relatedness of tasks, if `data` needs scores that the
        initialisation does not compute.
      ensemble: number of the best trials whose answers are averaged (NEVIS'22, Appendix I).
      halving: ends the worse trials early; None ends none.
      frozen: whether only heads are trained, on a fixed backbone, in one program for all trials.
    """

    initialisation: Initialisation
    search: Search
    recipe: Recipe
    data: AuxiliaryTasks = AuxiliaryTasks()
    neighbours: Neighbours = Neighbours()
    ensemble: int = 1
    halving: Halving | None = None
    frozen: bool = False

    @property
    def conventions(self) -> tuple[str, ...]:
        """Names of the versioned conventions that its results depend on."""
        return ("relatedness",) if self._candidates(1) else ()

    def init(self, ctx: Context) -> State:
        """Returns the empty state, since the past is in the predictors' checkpoints.

        Charges the cost of pre-training, and compiles the programs of the most common kind of task
        (with the smallest batch and head).
        """
        if self.initialisation.flops:
            ctx.charge(self.initialisation.flops)
        initialise, evaluation, step = list_programs(self.recipe, classes=1, n_train=1)
        heads = (
            linear_probe.list_programs(self.recipe, self.search.at_once, 1, 1)
            if self.frozen
            else ()
        )
        ctx.compile([initialise, evaluation, *(heads or [step])])
        return {}

    def train(
        self, task: TaskView, state: State, ctx: Context
    ) -> tuple[State, Sequence[Predictor]]:
        """Runs the trials; returns their predictors, the one with the lowest dev error first."""
        with ctx.phase("select"):
            start = self.initialisation.choose(task, ctx, self.recipe.network)
            scores = start.scores
            if self.data.by_relatedness and not scores:
                scores = FromRelated(self.neighbours).choose(task, ctx, self.recipe.network).scores
            helpers = self.data.choose(ctx, scores)
        results = self.search.run(
            ctx.seed, self._evaluate(task, ctx, start, [ctx.task(name) for name in helpers])
        )
        chosen_facts = {"initialised_from": start.source}
        chosen_facts |= {"related": scores} if scores else {}
        chosen_facts |= {"helpers": list(helpers)} if helpers else {}
        predictors = [
            Predictor(
                tree={
                    "variables": result["variables"],
                    "kind": task.kind,
                    "classes": task.num_classes,
                    "network": result["info"]["hyper"].get("network", MAIN),
                },
                trial=result.get("trial", number),
                step=result["step"],
                info=result["info"] | chosen_facts,
            )
            for number, result in enumerate(results)
        ]
        predictors.sort(key=lambda predictor: (_dev_error(predictor), predictor.trial))
        predictors[0].tree.update(self._extras(task, ctx, start, predictors))
        return state, predictors

    def _evaluate(
        self, task: TaskView, ctx: Context, start: Start, helpers: Sequence[TaskView]
    ) -> Callable:
        """Returns the function that runs a trial for each set of hyper-parameters."""
        if self.frozen:
            return lambda hypers: self._heads(task, ctx, start, hypers)
        trial = functools.partial(
            train_trial,
            task=task,
            backbone=start.variables,
            recipe=self.recipe,
            helpers=helpers,
            drawn=self.data.drawn,
        )
        if self.halving:
            recipe = self.recipe
            return lambda hypers: self.halving.run(
                ctx, trial, hypers, recipe.steps, recipe.validate_every
            )
        return lambda hypers: ctx.map(trial, [{"hyper": hyper} for hyper in hypers])

    def _heads(
        self, task: TaskView, ctx: Context, start: Start, hypers: Sequence[Hyper]
    ) -> list[Tree]:
        """Trains heads on the backbone of the start, or on a random one; results contain both."""
        backbone = start.variables
        if backbone is None:
            words = np.random.RandomState([ctx.seed & 0xFFFFFFFF, ctx.seed >> 32]).randint(
                2**32, size=4, dtype=np.uint32
            )
            backbone = ctx.jit(
                initialise_program(self.recipe.network, choose_head_size(task.num_classes))
            )(words)
        frozen = {
            "params": {"backbone": backbone["params"]["backbone"]},
            "batch_stats": backbone["batch_stats"],
        }
        results = linear_probe.fit_heads(ctx, task, frozen, hypers, self.recipe)
        for result in results:
            head = result["variables"]["params"]["head"]
            result["variables"] = {
                "params": frozen["params"] | {"head": head},
                "batch_stats": frozen["batch_stats"],
            }
        return results

    def _extras(
        self, task: TaskView, ctx: Context, start: Start, predictors: Sequence[Predictor]
    ) -> Tree:
        """Returns what else is kept with the chosen predictor.

        These are the other members of an ensemble, and a predictor trained on the task alone.

        Args:
          task: the current task.
          ctx: its context.
          start: where its trials started.
          predictors: those of the trials, by increasing dev error.
        """
        extras: dict[str, Any] = {}
        if self.ensemble > 1:
            sound = [each for each in predictors if each.info["dev_error"] is not None]
            members = sound[: self.ensemble]
            accuracies = np.asarray([1 - member.info["dev_error"] for member in members])
            weights = (
                np.exp((accuracies - accuracies.max()) / ENSEMBLE_TEMPERATURE)
                if members
                else np.ones(0)
            )
            extras["members"] = [
                {name: member.tree[name] for name in ("variables", "network")}
                for member in members[1:]
            ]
            extras["weights"] = [float(weight / weights.sum()) for weight in weights]
        if self.initialisation.needs_independent:
            extras["independent"] = predictors[0].tree["variables"]
            if start.variables is not None:
                trial = functools.partial(
                    train_trial, task=task, backbone=None, recipe=self.recipe, helpers=()
                )
                with ctx.phase("select"):
                    (result,) = ctx.map(trial, [{"hyper": predictors[0].info["hyper"]}])
                extras["independent"] = result["variables"]
        return extras

    def predict(self, predictor: Tree, images: Images, ctx: Context) -> np.ndarray:
        """Returns float32[n, classes] probabilities."""
        members = [predictor, *predictor.get("members", ())]
        weights = predictor.get("weights") or [1.0]
        answers = 0.0
        for member, weight in zip(members, weights, strict=True):
            network = self.recipe.of_trial({"network": member["network"]}).network
            answers += weight * predict_probabilities(
                ctx, network, member["variables"], images, predictor["kind"], predictor["classes"]
            )
        return np.asarray(answers, np.float32)

    def features(self, predictor: Tree, images: Images, ctx: Context) -> np.ndarray:
        """Returns float32[n, features], the pooled output of the predictor's backbone."""
        network = self.recipe.of_trial({"network": predictor["network"]}).network
        return embed(ctx, network, predictor["variables"], images, train=False)

    def estimate(
        self, classes: int, n_train: int, n_dev: int, n_predict: int, earlier: int = 0
    ) -> dict[str, Any]:
        """Estimates what a task will cost, without training.

        The estimate assumes that no trial diverges or is pruned, that all trials use the first
        network, and that heads of auxiliary tasks have at most 64 outputs.

        Args:
          classes: number of classes of the task.
          n_train, n_dev, n_predict: sizes of its train and dev splits, and of the split to predict.
          earlier: number of tasks before it.

        Returns:
          trials, steps, batch, and unless only heads are trained, FLOPs by phase.
        """
        recipe, trials = self.recipe, self.search.trials
        facts = {"trials": trials, "steps": recipe.steps, "batch": recipe.batch_of(n_train)}
        if self.frozen:
            return facts
        flops = count_training_flops(
            recipe, classes, n_train, n_dev, trials, self.data.most(earlier)
        )
        flops["predict"] = count_prediction_flops(
            recipe, classes, n_predict, min(self.ensemble, trials)
        )
        flops["select"] = 0
        if self.initialisation.needs_independent and earlier:
            independent = count_training_flops(recipe, classes, n_train, n_dev)
            flops["select"] += independent["train"]
            flops["validate"] += independent["validate"]
        if candidates := self._candidates(earlier):
            flops["select"] += candidates * self.neighbours.cost(recipe.network, n_train, n_dev)
        return facts | {"flops": flops}

    def _candidates(self, earlier: int) -> int:
        """Returns how many predictors are scored for a task that follows `earlier` tasks."""
        if isinstance(self.initialisation, FromRelated):
            return earlier + (self.initialisation.pretrained is not None)
        return earlier if self.data.by_relatedness else 0


def _dev_error(predictor: Predictor) -> float:
    error = predictor.info["dev_error"]
    return float("inf") if error is None else error


def _network(section: BackboneConfig, resolution: int, precision: str) -> Network:
    """Returns the network that a section of the configuration describes.

    Raises:
      BadInput: an unknown backbone or option; the message lists the valid ones.
    """
    values = {name: getattr(section, name) for name in _OPTIONS}
    options = {name: value for name, value in values.items() if value is not None}
    result = Network(section.name, tuple(sorted(options.items())), resolution, precision)
    result.backbone()
    return result


def _initialisation(config: BaselineConfig) -> Initialisation:
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
    begin, which = _initialisation(config), config.auxiliary.which
    names = (
        "learning_rate",
        "label_smoothing",
        *(("auxiliary_weight",) if which != "none" else ()),
    )
    spaces = {name: tuple(getattr(config.search, name)) for name in names}
    main, second = (
        _network(config.network, config.network.resolution, config.network.precision),
        None,
    )
    if config.search.space == "large":
        spaces |= {"schedule": tuple(SCHEDULES), "batch": tuple(config.search.batch)}
        spaces |= {"crop": (True, False), "flip": (True, False)}
        if isinstance(begin, FromRandom):  # other starts have the network of an earlier task
            second = _network(
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
