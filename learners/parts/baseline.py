"""The paper's family of learners: an initialisation × a search × a training recipe, each chosen freely."""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from learners.parts.augmentation import Augmentation
from learners.parts.fit import Recipe, fit
from learners.parts.initialisation import FromPrevious, FromRandom, Initialisation
from learners.parts.model import (
    EVALUATION_BATCH,
    Network,
    TaskShape,
    begin,
    head_size,
    initialise_program,
    predict_probabilities,
    probabilities_program,
)
from learners.parts.schedule import batch_size
from learners.parts.search import GridSearch, RandomSearch
from nevis_stream.checkpoint import Tree
from nevis_stream.counted import counted
from nevis_stream.datasets.images import Images
from nevis_stream.learner import Context, Predictor, State
from nevis_stream.task import SINGLE_LABEL, TaskView


@dataclass(frozen=True)
class Baseline:
    """A learner that trains several trials a task and keeps the one with the lowest dev error.

    Attributes:
      initialisation: where the trials start.
      search: what hyper-parameters they get.
      recipe: how each is trained.
    """

    initialisation: Initialisation
    search: RandomSearch | GridSearch
    recipe: Recipe

    def init(self, ctx: Context) -> State:
        """Returns the empty state: what is known of the past stands in the predictors' checkpoints.

        The programs of the most usual task (the smallest batch and head) are compiled here, so that the first task need
        not wait for them.
        """
        ctx.compile(self._programs(classes=1, n_train=1))
        return {}

    def train(self, task: TaskView, state: State, ctx: Context) -> tuple[State, Sequence[Predictor]]:
        """Runs the trials; the predictors come back by rising dev error."""
        with ctx.phase("select"):
            source = self.initialisation.choose(task, ctx)
        backbone = None if source is None else ctx.predictor(source)["variables"]
        trial = functools.partial(_trial, task=task, backbone=backbone, recipe=self.recipe)
        results = ctx.map(trial, self.search.draw(ctx.seed))
        predictors = [
            Predictor(
                tree={"variables": result["variables"], "kind": task.kind, "classes": task.num_classes},
                trial=number,
                step=result["step"],
                info=result["info"] | {"initialised_from": source or "random"},
            )
            for number, result in enumerate(results)
        ]
        worst = float("inf")
        order = sorted(
            predictors, key=lambda p: (worst if p.info["dev_error"] is None else p.info["dev_error"], p.trial)
        )
        return state, order

    def predict(self, predictor: Tree, images: Images, ctx: Context) -> np.ndarray:
        """Returns float32[n, classes] probabilities."""
        return predict_probabilities(
            ctx, self.recipe.network, predictor["variables"], images, predictor["kind"], predictor["classes"]
        )

    def estimate(self, classes: int, n_train: int, n_dev: int, n_predict: int) -> dict[str, Any]:
        """Returns what a task will cost, from its sizes alone: trials, steps and FLOPs by phase; trains nothing.

        No trial is taken to diverge; the initialisation's own cost is not included.
        """
        recipe, trials = self.recipe, self.search.trials
        step, look, _ = (
            counted(function, **options).flops(*args) for function, args, options in self._programs(classes, n_train)
        )
        looks = 1 + -(-recipe.steps // recipe.validate_every)
        return {
            "trials": trials,
            "steps": recipe.steps,
            "batch": batch_size(n_train, recipe.largest_batch),
            "flops": {
                "train": trials * recipe.steps * step,
                "validate": trials * looks * -(-n_dev // EVALUATION_BATCH) * look,
                "predict": -(-n_predict // EVALUATION_BATCH) * look,
            },
        }

    def _programs(self, classes: int, n_train: int) -> list[tuple[Callable, tuple, dict]]:
        """Returns the step, the look and the initialisation of a task: each a function, its arguments and `jit` options."""
        recipe, network, outputs = self.recipe, self.recipe.network, head_size(classes)
        words, array = jax.ShapeDtypeStruct((4,), jnp.uint32), jax.ShapeDtypeStruct
        variables = jax.eval_shape(initialise_program(network, outputs), words)
        batch, scalar = batch_size(n_train, recipe.largest_batch), np.float32(0)
        shape = TaskShape.of(SINGLE_LABEL, classes)  # the kind is an argument: every kind costs the same
        stored = array((batch, recipe.stored_size, recipe.stored_size, 3), jnp.uint8)
        sizes, target = array((batch, 2), jnp.int32), array((batch, outputs), jnp.uint8)
        step = (begin(variables), stored, sizes, target, jax.random.key(0), np.int32(0), scalar, scalar, shape)
        views = array((EVALUATION_BATCH, network.resolution, network.resolution, 3), jnp.uint8)
        return [
            (recipe.step(classes), step, {"donate_argnums": 0}),
            (probabilities_program(network, outputs), (variables, views, shape), {}),
            (initialise_program(network, outputs), (words,), {}),
        ]


def _trial(
    ctx: Context, hyper: Mapping[str, float], *, task: TaskView, backbone: Tree | None, recipe: Recipe
) -> Tree:
    """Makes the initial parameters of one trial and fits them."""
    words = np.random.RandomState([ctx.seed & 0xFFFFFFFF, ctx.seed >> 32]).randint(2**32, size=4, dtype=np.uint32)
    fresh = ctx.jit(initialise_program(recipe.network, head_size(task.num_classes)))(words)
    if backbone is not None:
        fresh = {
            "params": {"backbone": backbone["params"]["backbone"], "head": fresh["params"]["head"]},
            "batch_stats": backbone["batch_stats"],
        }
    return fit(ctx, task, fresh, hyper, recipe)


def from_config(config: Any, initialisation: FromRandom | FromPrevious) -> Baseline:
    """Builds a baseline from a resolved config (see experiments/run_config.py)."""
    spaces = {name: tuple(config.search[name]) for name in ("learning_rate", "label_smoothing")}
    search = GridSearch(spaces) if config.search.method == "grid" else RandomSearch(config.search.trials, spaces)
    options = {name: config.network[name] for name in ("stage_sizes", "width", "stem", "hidden")}
    options = {name: tuple(v) if isinstance(v, list) else v for name, v in options.items() if v is not None}
    network = Network(config.network.name, tuple(sorted(options.items())), config.network.resolution)
    network.backbone()
    return Baseline(
        initialisation,
        search,
        Recipe(
            network=network,
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
        ),
    )
