"""The paper's family of learners: an initialisation × a search × a training recipe."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from learners.parts import costs, probe
from learners.parts.fit import MAIN, Recipe, fit
from learners.parts.halving import Halving
from learners.parts.initialisation import FromRelated, Initialisation, Start
from learners.parts.model import head_size, initialise_program, predict_probabilities
from learners.parts.relatedness import Neighbours
from learners.parts.search import Hyper, Search
from learners.parts.training_data import Current, TrainingData
from nevis_stream.datasets.images import Images
from nevis_stream.learner import Context, Predictor, State
from nevis_stream.run_directory.checkpoint import Tree
from nevis_stream.streams.task import TaskView

CURRENT = Current()
ENSEMBLE_TEMPERATURE = 0.1


@dataclass(frozen=True)
class Baseline:
    """A learner that trains several trials a task and keeps the one with the lowest dev error.

    Attributes:
      initialisation: where the trials start.
      search: what hyper-parameters they get.
      recipe: how each is trained.
      data: what they are trained on besides the current task.
      neighbours: how the relatedness of tasks is scored, where `data` needs it and the
        initialisation does not.
      ensemble: how many of the best trials answer together (NEVIS'22, Appendix I).
      halving: which trials are ended early, or None.
      frozen: whether the backbone stays as it starts, and only heads are trained, those of all
        trials at once.
    """

    initialisation: Initialisation
    search: Search
    recipe: Recipe
    data: TrainingData = CURRENT
    neighbours: Neighbours = Neighbours()
    ensemble: int = 1
    halving: Halving | None = None
    frozen: bool = False

    def init(self, ctx: Context) -> State:
        """Returns the empty state: what is known of the past is in the predictors' checkpoints.

        What pre-training cost is charged here. The programs of the most usual task (the smallest
        batch and head) are compiled here, so that the first task need not wait for them.
        """
        if self.initialisation.flops:
            ctx.charge(self.initialisation.flops)
        initialise, look, step = costs.programs(self.recipe, classes=1, n_train=1)
        heads = probe.programs(self.recipe, self.search.at_once, 1, 1) if self.frozen else ()
        ctx.compile([initialise, look, *(heads or [step])])
        return {}

    def train(
        self, task: TaskView, state: State, ctx: Context
    ) -> tuple[State, Sequence[Predictor]]:
        """Runs the trials; the predictors come back by rising dev error."""
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
        worst = float("inf")
        order = sorted(
            predictors,
            key=lambda p: (worst if p.info["dev_error"] is None else p.info["dev_error"], p.trial),
        )
        order[0].tree.update(self._beside(task, ctx, start, order))
        return state, order

    def _evaluate(
        self, task: TaskView, ctx: Context, start: Start, helpers: Sequence[TaskView]
    ) -> Callable:
        """Returns what runs a trial for each set of hyper-parameters."""
        if self.frozen:
            return lambda hypers: self._heads(task, ctx, start, hypers)
        trial = functools.partial(
            _trial, task=task, backbone=start.variables, recipe=self.recipe, helpers=helpers
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
        """Trains heads on the start's backbone, which every result then holds.

        Without a start the backbone is a random one.
        """
        backbone = start.variables
        if backbone is None:
            words = np.random.RandomState([ctx.seed & 0xFFFFFFFF, ctx.seed >> 32]).randint(
                2**32, size=4, dtype=np.uint32
            )
            backbone = ctx.jit(
                initialise_program(self.recipe.network, head_size(task.num_classes))
            )(words)
        frozen = {
            "params": {"backbone": backbone["params"]["backbone"]},
            "batch_stats": backbone["batch_stats"],
        }
        results = probe.fit_heads(ctx, task, frozen, hypers, self.recipe)
        for result in results:
            head = result["variables"]["params"]["head"]
            result["variables"] = {
                "params": frozen["params"] | {"head": head},
                "batch_stats": frozen["batch_stats"],
            }
        return results

    def _beside(
        self, task: TaskView, ctx: Context, start: Start, order: Sequence[Predictor]
    ) -> Tree:
        """What the chosen predictor has besides its own parameters.

        These are an ensemble's, and those trained independently.
        """
        extras: dict[str, Any] = {}
        if self.ensemble > 1:
            members = [predictor for predictor in order if predictor.info["dev_error"] is not None][
                : self.ensemble
            ]
            accuracies = np.asarray([1 - predictor.info["dev_error"] for predictor in members])
            weights = (
                np.exp((accuracies - accuracies.max()) / ENSEMBLE_TEMPERATURE)
                if members
                else np.ones(0)
            )
            extras["members"] = [
                {name: predictor.tree[name] for name in ("variables", "network")}
                for predictor in members[1:]
            ]
            extras["weights"] = [float(weight / weights.sum()) for weight in weights]
        if self.initialisation.needs_independent:
            extras["independent"] = order[0].tree["variables"]
            if start.variables is not None:
                alone = functools.partial(
                    _trial, task=task, backbone=None, recipe=self.recipe, helpers=()
                )
                with ctx.phase("select"):
                    (result,) = ctx.map(alone, [{"hyper": order[0].info["hyper"]}])
                extras["independent"] = result["variables"]
        return extras

    def predict(self, predictor: Tree, images: Images, ctx: Context) -> np.ndarray:
        """Returns float32[n, classes] probabilities."""
        members = [predictor, *predictor.get("members", ())]
        weights = predictor.get("weights") or [1.0]
        answers = 0.0
        for member, weight in zip(members, weights, strict=True):
            network = self.recipe.of({"network": member["network"]}).network
            answers += weight * predict_probabilities(
                ctx, network, member["variables"], images, predictor["kind"], predictor["classes"]
            )
        return np.asarray(answers, np.float32)

    def estimate(
        self, classes: int, n_train: int, n_dev: int, n_predict: int, earlier: int = 0
    ) -> dict[str, Any]:
        """Returns what a task will cost, from sizes alone; trains nothing.

        The keys are trials, steps, batch and FLOPs by phase.

        `earlier` tasks have been met. No trial is taken to diverge or to be pruned, of several
        networks the first is taken, and heads of auxiliary tasks to have at most 64 outputs. FLOPs
        are missing where only heads are trained.
        """
        recipe, trials = self.recipe, self.search.trials
        facts = {"trials": trials, "steps": recipe.steps, "batch": recipe.batch_of(n_train)}
        if self.frozen:
            return facts
        flops = costs.of_trials(recipe, classes, n_train, n_dev, trials, self.data.most(earlier))
        flops["predict"] = costs.of_predicting(
            recipe, classes, n_predict, min(self.ensemble, trials)
        )
        flops["select"] = 0
        if self.initialisation.needs_independent and earlier:
            alone = costs.of_trials(recipe, classes, n_train, n_dev)
            flops["select"] += alone["train"]
            flops["validate"] += alone["validate"]
        if candidates := self._candidates(earlier):
            flops["select"] += candidates * self.neighbours.cost(recipe.network, n_train, n_dev)
        return facts | {"flops": flops}

    def _candidates(self, earlier: int) -> int:
        """Returns how many predictors are scored for a task, by the number of tasks before it."""
        if isinstance(self.initialisation, FromRelated):
            return earlier + (self.initialisation.pretrained is not None)
        return earlier if self.data.by_relatedness else 0


def _trial(
    ctx: Context,
    item: Mapping[str, Any],
    *,
    task: TaskView,
    backbone: Tree | None,
    recipe: Recipe,
    helpers: Sequence[TaskView],
) -> Tree:
    """Makes the initial parameters of one trial and fits them, or continues an earlier piece of it.

    `item` holds `hyper` and may hold `position` and `until` (see `fit`).
    """
    hyper, position = item["hyper"], item.get("position")
    recipe, fresh = recipe.of(hyper), None
    if position is None:
        random = np.random.RandomState([ctx.seed & 0xFFFFFFFF, ctx.seed >> 32])
        words = random.randint(2**32, size=(1 + len(helpers), 4), dtype=np.uint32)
        fresh = ctx.jit(initialise_program(recipe.network, head_size(task.num_classes)))(words[0])
        if backbone is not None:
            fresh = {
                "params": {
                    "backbone": backbone["params"]["backbone"],
                    "head": fresh["params"]["head"],
                },
                "batch_stats": backbone["batch_stats"],
            }
        if helpers:
            initial = [
                ctx.jit(initialise_program(recipe.network, head_size(helper.num_classes)))(
                    words[1 + number]
                )
                for number, helper in enumerate(helpers)
            ]
            heads = {
                str(number): variables["params"]["head"] for number, variables in enumerate(initial)
            }
            fresh["params"] = {**fresh["params"], "helpers": heads}
    result = fit(ctx, task, fresh, hyper, recipe, helpers, position, item.get("until"))
    return result | {"trial": ctx.trial}
