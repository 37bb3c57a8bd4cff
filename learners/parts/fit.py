"""Fitting one model to one task with given hyper-parameters (NEVIS'22, section 4)."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from nevis_stream.errors import BadInput
from nevis_stream.learner import Context
from nevis_stream.learners.parts.feed import Feed
from nevis_stream.learners.parts.loop import Curve, Training, measure_dev_error, train
from nevis_stream.learners.parts.model import (
    Network,
    begin,
    chain_steps,
    choose_head_size,
    initialise_program,
    predict_probabilities,
)
from nevis_stream.learners.parts.recipe import AUXILIARY_BATCH, SCHEDULES, Recipe
from nevis_stream.seeds import key_of
from nevis_stream.storage.checkpoint import Tree, to_host
from nevis_stream.streams.task import TaskView

_DRAWS = 0x6472_6177  # apart from other uses of a trial's seed


def fit(
    ctx: Context,
    task: TaskView,
    variables: Mapping[str, Any] | None,
    hyper: Mapping[str, Any],
    recipe: Recipe,
    helpers: Sequence[TaskView] = (),
    position: Tree | None = None,
    until: int | None = None,
    *,
    drawn: int | None = None,
    stop: Callable[[Curve], bool] | None = None,
    side: Callable[[int], int] | None = None,
    learned: tuple[str, ...] = (),
    together: int = 1,
) -> Tree:
    """Trains from `variables` and returns the parameters with the lowest dev error.

    Of several with the same error the last is returned. The initial parameters are a candidate too,
    so a trial whose loss stops being finite still returns parameters.

    Args:
      ctx: context of the trial.
      task: the current task.
      variables: {"params": {"backbone", "head"}, "batch_stats"} to start from; params also has
        "helpers": {"0", …}, the heads of the helpers, which are not returned. None with a position.
      hyper: `learning_rate`, `label_smoothing` and, with helpers, `auxiliary_weight`.
      recipe: everything else.
      helpers: auxiliary tasks; each step also trains on a batch of 64 of each.
      position: the position that an earlier call with `until` returned, from which to continue.
      until: the step at which to pause, a multiple of `validate_every`; the schedule of the
        learning rate still spans all steps.
      drawn: at each step so many of the helpers are drawn; the heads of the others stay as they
        are. None: each step uses all.
      stop: called with the curve after each evaluation; the trial ends early when it returns True.
      side: `side(step)` is the side of that step's training views in pixels, for networks whose
        parameters fit every size; each size has a program. Evaluations use the network's
        resolution.
      learned: the parameters that are updated, such as ("head", "backbone/BasicBlock_3"); empty
        means all. Batch statistics are always updated.
      together: steps per program (`lax.scan`). On a GPU several steps save dispatch; on a CPU
        gradients of convolutions are 15 to 35 times slower inside a scan.

    Returns:
      {"variables", "step" (of the best evaluation), "info" (see docs/run-directory.md)}, and
      "position" if `until` paused it.
    """
    seed = position["seed"] if position else ctx.seed
    rates = SCHEDULES[recipe.schedule](hyper["learning_rate"], recipe.steps, recipe.warmup_share)
    key, smoothing = key_of(seed), np.float32(hyper["label_smoothing"])
    feed = Feed(ctx, task, recipe.stored_size, recipe.batch_of(len(task.train)), seed)
    others = [
        Feed(ctx, helper, recipe.stored_size, AUXILIARY_BATCH, (seed + 1 + number) & (2**63 - 1))
        for number, helper in enumerate(helpers)
    ]
    weight = np.float32(hyper.get("auxiliary_weight", 0))

    every = tuple(range(len(helpers)))
    draws = drawn is not None and drawn < len(helpers)

    def helpers_at(index: int) -> tuple[int, ...]:
        """The helpers of a step, which depend only on the seed and the step."""
        if not draws:
            return every
        random = np.random.default_rng((seed, _DRAWS, index))
        return tuple(sorted(random.permutation(len(helpers))[:drawn].tolist()))

    @functools.cache
    def program(length: int, pixels: int | None, heads: tuple[int, ...]) -> Callable:
        step = recipe.step(task.num_classes, heads, pixels, learned)
        return ctx.jit(chain_steps(step) if length > 1 else step, donate_argnums=0)

    def step_inputs(index: int, used: Sequence[int]) -> Tree:
        batches = [source(index) for source in (feed, *(others[number] for number in used))]
        return [batch[:3] for batch in batches], np.int32(index), rates[index]

    def advance(carry: Tree, start: int, end: int) -> tuple[Tree, list[tuple[float, int]]]:
        # a program of several steps has the same helpers in all of them
        for indices in _pieces(start, end, 1 if draws else together, side):
            used = helpers_at(indices[0])
            arguments = [step_inputs(index, used) for index in indices]
            (own, *helping), index, rate = (
                jax.tree.map(_stack, *arguments) if len(indices) > 1 else arguments[0]
            )
            shapes = [others[number].shape for number in used]
            auxiliary = (tuple((*x, s) for x, s in zip(helping, shapes, strict=True)), weight)
            heads = tuple(choose_head_size(helpers[number].num_classes) for number in used)
            carry, unused = _split_heads(carry, used) if draws else (carry, None)
            carry = program(len(indices), side and side(indices[0]), heads)(
                carry,
                *own,
                key,
                index,
                rate,
                smoothing,
                feed.shape,
                *(auxiliary if others else ()),
            )
            if unused is not None:
                carry = _join_heads(carry, used, unused)
        return report(carry, end - start)

    training = Training(
        name=f"task {task.task_id!r}",
        begin=lambda: begin(variables),
        advance=advance,
        evaluate=lambda carry: [(evaluate_on_dev(ctx, task, recipe.network, carry), {})],
        keep=lambda carry, _: on_host(carry, ("backbone", "head")),
    )
    try:
        (result,) = train(
            [ctx],
            training,
            [hyper],
            [rates],
            every=recipe.validate_every,
            position=position,
            until=until,
            stop=stop,
        )
    finally:
        for source in (feed, *others):
            source.close()
    if "position" in result:
        result["position"]["seed"] = seed
    return result


def train_trial(
    ctx: Context,
    item: Mapping[str, Any],
    *,
    task: TaskView,
    backbone: Tree | None,
    recipe: Recipe,
    helpers: Sequence[TaskView],
    drawn: int | None = None,
) -> Tree:
    """Trains one trial from its initial parameters, or continues it from a position.

    `item` contains `hyper`, and may contain `position` and `until` (see `fit`, also for `drawn`).
    """
    hyper, position = item["hyper"], item.get("position")
    recipe, fresh = recipe.of_trial(hyper), None
    if position is None:
        random = np.random.RandomState([ctx.seed & 0xFFFFFFFF, ctx.seed >> 32])
        words = random.randint(2**32, size=(1 + len(helpers), 4), dtype=np.uint32)
        fresh = ctx.jit(initialise_program(recipe.network, choose_head_size(task.num_classes)))(
            words[0]
        )
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
                ctx.jit(initialise_program(recipe.network, choose_head_size(helper.num_classes)))(
                    words[1 + number]
                )
                for number, helper in enumerate(helpers)
            ]
            heads = {
                str(number): variables["params"]["head"] for number, variables in enumerate(initial)
            }
            fresh["params"] = {**fresh["params"], "helpers": heads}
    result = fit(ctx, task, fresh, hyper, recipe, helpers, position, item.get("until"), drawn=drawn)
    return result | {"trial": ctx.trial}


def _pieces(
    start: int, end: int, together: int, side: Callable[[int], int] | None
) -> Iterator[range]:
    """Yields the steps of each program: up to `together` steps with views of the same size."""
    first = start
    while first < end:
        stop = first + 1
        while stop < min(first + together, end) and not (side and side(stop) != side(first)):
            stop += 1
        yield range(first, stop)
        first = stop


def _split_heads(carry: Tree, used: Sequence[int]) -> tuple[Tree, Tree]:
    """Returns a carry with the heads of some helpers alone, numbered from 0, and the other heads;
    each with their momentum."""
    inner, unused = dict(carry), {}
    if str(max(used)) not in carry["params"]["helpers"]:
        raise BadInput(
            "this run was begun by an earlier version, which drew auxiliary tasks once a task."
            " Choose a new --run_dir."
        )
    for part in ("params", "momentum"):
        heads = dict(carry[part]["helpers"])
        chosen = {str(place): heads.pop(str(number)) for place, number in enumerate(used)}
        inner[part], unused[part] = {**carry[part], "helpers": chosen}, heads
    return inner, unused


def _join_heads(carry: Tree, used: Sequence[int], unused: Tree) -> Tree:
    """Returns the carry with all heads again."""
    whole = dict(carry)
    for part in ("params", "momentum"):
        chosen = {str(used[int(place)]): head for place, head in carry[part]["helpers"].items()}
        whole[part] = {**carry[part], "helpers": unused[part] | chosen}
    return whole


def _stack(*arrays: Any) -> Any:
    return (np if isinstance(arrays[0], np.ndarray | np.generic) else jnp).stack(arrays)


def report(carry: Tree, steps: int) -> tuple[Tree, list[tuple[float, int]]]:
    """Returns a carry with its sum of losses reset, and the reports of `Training.advance`.

    `steps` is the number of steps since the sum was last reset.
    """
    loss, finite = float(carry["loss_sum"]) / steps, int(carry["finite_steps"])
    return carry | {"loss_sum": np.float32(0)}, [(loss, finite)]


def evaluate_on_dev(
    ctx: Context, task: TaskView, network: Network, carry: Mapping[str, Any]
) -> float:
    """Returns the dev error of the parameters in a carry; infinity if an answer is not finite.

    Its FLOPs are charged to the phase `validate`.
    """
    with ctx.phase("validate"):
        answers = predict_probabilities(
            ctx, network, carry, task.dev.images, task.kind, task.num_classes
        )
    return measure_dev_error(task.dev.labels, answers, task.kind)


def on_host(carry: Mapping[str, Any], parts: Sequence[str]) -> Tree:
    """Copies parts of the parameters, and the statistics, to numpy: steps donate their buffers."""
    params = {name: jax.tree.map(np.array, carry["params"][name]) for name in parts}
    return to_host({"params": params, "batch_stats": jax.tree.map(np.array, carry["batch_stats"])})
