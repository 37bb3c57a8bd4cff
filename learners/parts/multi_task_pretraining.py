"""Pre-training: training one backbone on several tasks at once, each with its own head.

Each step draws a task, with a probability proportional to the square root of its number of
examples, and trains on a batch of it with the program of `fit`. Backbone and momentum are shared,
heads are not.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nevis_stream.learner import Context
from nevis_stream.learners.parts.feed import Feed
from nevis_stream.learners.parts.fit import evaluate_on_dev, on_host, report
from nevis_stream.learners.parts.loop import Training, round_value, train
from nevis_stream.learners.parts.model import begin, choose_head_size, initialise_program
from nevis_stream.learners.parts.recipe import SCHEDULES, Recipe
from nevis_stream.storage.checkpoint import Tree, to_host
from nevis_stream.streams.task import TaskView


def fit_jointly(
    ctx: Context, hyper: Mapping[str, Any], *, tasks: Sequence[TaskView], recipe: Recipe
) -> Tree:
    """Trains from random parameters and returns the backbone with the lowest mean dev error.

    Args:
      ctx: context of the trial.
      hyper: `learning_rate` and `label_smoothing`.
      tasks: the tasks.
      recipe: everything else; its steps are divided among the tasks.

    Returns:
      {"variables": {"params": {"backbone"}, "batch_stats"}, "step", "info"} as `fit` returns them,
      with the dev error of each task in `info["dev_errors"]`.
    """
    shares = np.sqrt([len(task.train) for task in tasks])
    drawn = ctx.generator("task").choice(len(tasks), size=recipe.steps, p=shares / shares.sum())
    words = ctx.generator("parameters").integers(2**32, size=(len(tasks), 4), dtype=np.uint32)
    # for each task, the number of its batch at each step
    turns = [np.cumsum(drawn == number) - 1 for number in range(len(tasks))]
    rates = SCHEDULES[recipe.schedule](hyper["learning_rate"], recipe.steps, recipe.warmup_share)
    smoothing, key = np.float32(hyper["label_smoothing"]), ctx.key
    feeds = [
        Feed(
            ctx,
            task,
            recipe.stored_size,
            recipe.batch_of(len(task.train)),
            (ctx.seed + number) & (2**63 - 1),
        )
        for number, task in enumerate(tasks)
    ]
    steps = [ctx.jit(recipe.step(task.num_classes), donate_argnums=0) for task in tasks]

    def begin_all() -> Tree:
        programs = [
            initialise_program(recipe.network, choose_head_size(t.num_classes)) for t in tasks
        ]
        carries = [
            begin(to_host(ctx.jit(program)(word)))
            for program, word in zip(programs, words, strict=True)
        ]
        return {"carry": carries[0], "heads": [_head(carry) for carry in carries]}

    def advance(state: Tree, start: int, stop: int) -> tuple[Tree, list[tuple[float, int]]]:
        carry, heads = state["carry"], list(state["heads"])
        for index in range(start, stop):
            number = int(drawn[index])
            *batch, shape = feeds[number](int(turns[number][index]))
            carry = steps[number](
                _with_head(carry, heads[number]),
                *batch,
                key,
                np.int32(index),
                rates[index],
                smoothing,
                shape,
            )
            heads[number] = _head(carry)
        carry, reports = report(carry, stop - start)
        return {"carry": carry, "heads": heads}, reports

    def evaluate(state: Tree) -> list[tuple[float, dict[str, Any]]]:
        errors = {
            task.task_id: evaluate_on_dev(
                ctx, task, recipe.network, _with_head(state["carry"], head)
            )
            for task, head in zip(tasks, state["heads"], strict=True)
        }
        facts = {"dev_errors": {name: round_value(error) for name, error in errors.items()}}
        return [(float(np.mean(list(errors.values()))), facts)]

    training = Training(
        name="pre-training",
        begin=begin_all,
        advance=advance,
        evaluate=evaluate,
        keep=lambda state, _: on_host(state["carry"], ["backbone"]),
    )
    try:
        (result,) = train(
            [ctx], training, [hyper], [rates], every=recipe.validate_every, start_counts=False
        )
    finally:
        for feed in feeds:
            feed.close()
    return result


def _head(carry: Tree) -> Tree:
    """Returns a head and its momentum."""
    return {name: carry[name]["head"] for name in ("params", "momentum")}


def _with_head(carry: Tree, head: Tree) -> Tree:
    return carry | {
        name: {"backbone": carry[name]["backbone"], "head": head[name]}
        for name in ("params", "momentum")
    }
