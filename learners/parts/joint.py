"""Training one backbone on several tasks at once, each with a head of its own: what pre-training
is.

Each step draws a task with a probability proportional to the square root of its number of examples
and takes the usual step on a batch of it; backbone and momentum are shared, heads are not. The
programs are those of `fit`.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from learners.parts.feed import Feed
from learners.parts.fit import Recipe, diverged_at, log_row, look_at_dev, rounded
from learners.parts.model import begin, head_size, initialise_program
from learners.parts.schedule import SCHEDULES
from nevis_stream.learner import Context
from nevis_stream.run_directory.checkpoint import Tree, to_host
from nevis_stream.streams.task import TaskView


def fit_jointly(
    ctx: Context, hyper: Mapping[str, Any], *, tasks: Sequence[TaskView], recipe: Recipe
) -> Tree:
    """Trains from random parameters and returns the backbone with the lowest mean dev error over
    the tasks.

    Args:
      ctx: context of the trial.
      hyper: `learning_rate` and `label_smoothing`.
      tasks: what is trained on.
      recipe: everything else; its steps are those of all tasks together.

    Returns:
      {"variables": {"params": {"backbone"}, "batch_stats"}, "step", "info"} as `fit` has it, with
      each task's dev error in `info["dev_errors"]`.
    """
    draws = np.random.RandomState([ctx.seed & 0xFFFFFFFF, ctx.seed >> 32, 13])
    shares = np.sqrt([len(task.train) for task in tasks])
    drawn = draws.choice(len(tasks), size=recipe.steps, p=shares / shares.sum())
    # of each task, its batches so far
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

    def look(carry, heads) -> dict[str, float]:
        variables = [
            {"params": carry["params"] | {"head": head}, "batch_stats": carry["batch_stats"]}
            for head, _ in heads
        ]
        return {
            task.task_id: look_at_dev(ctx, task, recipe.network, each)
            for task, each in zip(tasks, variables, strict=True)
        }

    resumed = ctx.restore()
    if resumed:
        start, saved = resumed
        carry, best, curve = saved["carry"], saved["best"], saved["curve"]
        heads = [tuple(pair) for pair in saved["heads"]]
    else:
        start = 0
        words = draws.randint(2**32, size=(len(tasks), 4), dtype=np.uint32)
        made = [
            begin(
                to_host(
                    ctx.jit(initialise_program(recipe.network, head_size(task.num_classes)))(word)
                )
            )
            for task, word in zip(tasks, words, strict=True)
        ]
        heads = [(each["params"]["head"], each["momentum"]["head"]) for each in made]
        carry = made[0]
        errors = look(carry, heads)
        curve = [[0, None, rounded(float(np.mean(list(errors.values()))))]]
        best = {"step": 0, "error": math.inf, "errors": errors, "variables": _copy(carry)}
    for row in curve:
        log_row(ctx, row, rates)
    carry, done, diverged = ctx.replicate(carry), start, False
    try:
        for index in range(start, recipe.steps):
            number = int(drawn[index])
            head, momentum = heads[number]
            carry = carry | {
                "params": {"backbone": carry["params"]["backbone"], "head": head},
                "momentum": {"backbone": carry["momentum"]["backbone"], "head": momentum},
            }
            batch = feeds[number](int(turns[number][index]))
            carry = steps[number](
                carry,
                batch.stored,
                batch.sizes,
                batch.target,
                key,
                np.int32(index),
                rates[index],
                smoothing,
                batch.shape,
            )
            heads[number] = carry["params"]["head"], carry["momentum"]["head"]
            done = index + 1
            if done % recipe.validate_every and done != recipe.steps:
                continue
            ctx.progress(done, recipe.steps)
            diverged = diverged_at(
                carry, done, recipe, hyper, f"pre-training, trial {ctx.trial}", best["step"]
            )
            if diverged is not False:
                break
            errors = look(carry, heads)
            error = float(np.mean(list(errors.values())))
            curve.append(
                [done, rounded(float(carry["loss_sum"]) / (done - curve[-1][0])), rounded(error)]
            )
            log_row(ctx, curve[-1], rates)
            carry["loss_sum"] = np.float32(0)
            if error <= best["error"]:
                best = {"step": done, "error": error, "errors": errors, "variables": _copy(carry)}
            ctx.checkpoint(
                done,
                lambda: {
                    "carry": carry,  # noqa: B023
                    "heads": [list(pair) for pair in heads],
                    "best": best,  # noqa: B023
                    "curve": curve,
                },
            )
    finally:
        for feed in feeds:
            feed.close()
    return {
        "variables": best["variables"],
        "step": best["step"],
        "info": {
            "hyper": dict(hyper),
            "steps": done,
            "dev_error": rounded(best["error"]),
            "dev_errors": {name: rounded(error) for name, error in best["errors"].items()},
            "diverged": diverged,
            "curve": curve,
        },
    }


def _copy(carry: Mapping[str, Any]) -> Tree:
    params = {"backbone": jax.tree.map(np.array, carry["params"]["backbone"])}
    return to_host({"params": params, "batch_stats": jax.tree.map(np.array, carry["batch_stats"])})
