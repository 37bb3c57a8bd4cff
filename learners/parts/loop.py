"""The training loop: steps, evaluations on the dev split, best parameters, curve, and positions.

It trains one trial, or several that share a program. A step and an evaluation (on the dev
split) are functions of a state, which is a tree of arrays; the loop does everything else.
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nevis_stream import metrics
from nevis_stream.errors import RunWarning
from nevis_stream.learner import Context
from nevis_stream.storage.checkpoint import Tree, to_host
from nevis_stream.training.loop import take_steps

Curve = Sequence[Sequence[float | None]]
"""Rows of [step, mean training loss since the row before, dev error], from step 0 on."""


@dataclass(frozen=True)
class Training:
    """The functions that the loop calls.

    Attributes:
      name: name of the task, for warnings.
      begin: returns the state before the first step.
      advance: `advance(state, start, stop)` runs the steps from `start` up to `stop` and returns
        the new state and, for each trial, the mean loss of these steps and the number of steps from
        0 on that precede the first whose loss was not finite.
      evaluate: returns, for each trial, the dev error and the facts that `info` gets if this
        evaluation turns out to be the best.
      keep: `keep(state, number)` returns a copy of a trial's parameters on the host.
    """

    name: str
    begin: Callable[[], Tree]
    advance: Callable[[Tree, int, int], tuple[Tree, Sequence[tuple[float, int]]]]
    evaluate: Callable[[Tree], Sequence[tuple[float, Mapping[str, Any]]]]
    keep: Callable[[Tree, int], Tree]


def train(
    contexts: Sequence[Context],
    training: Training,
    hypers: Sequence[Mapping[str, Any]],
    rates: Sequence[np.ndarray],
    *,
    every: int,
    position: Tree | None = None,
    until: int | None = None,
    stop: Callable[[Curve], bool] | None = None,
    start_counts: bool = True,
) -> list[Tree]:
    """Trains and returns each trial's parameters with the lowest dev error, of several the last.

    A trial whose loss stops being finite ends at the next evaluation. After each evaluation the
    first trial's context may save the position, from which training continues after a kill.

    Args:
      contexts: the contexts of the trials.
      training: the functions of the training.
      hypers: hyper-parameters of each trial, for the record.
      rates: float32[steps] for each trial, the learning rate of each step.
      every: steps between two evaluations.
      position: the position that an earlier call with `until` returned, from which to continue.
      until: the step at which to pause, a multiple of `every`; None trains to the last step.
      stop: called with a trial's curve after each evaluation; the trial ends early when it returns
        True.
      start_counts: whether the parameters before the first step are a candidate.

    Returns:
      For each trial {"variables", "step" (of the best evaluation), "info" (see
      docs/run-directory.md)}, and "position" if `until` paused it.
    """
    first, steps = contexts[0], len(rates[0])
    last = min(until or steps, steps)
    saved = first.restore() or (position and (position["step"], position))
    if saved:
        step, state = saved[0], saved[1]["state"]
        trials = [trial | {"curve": list(trial["curve"])} for trial in saved[1]["trials"]]
        for ctx, counts in zip(contexts[1:], saved[1].get("meters", ()), strict=True):
            ctx.meter.add(counts)
    else:
        step, state = 0, training.begin()
        trials = [
            {
                "going": True,
                "steps": 0,
                "diverged_at": None,
                "curve": [[0, None, round_value(error)]],
                "best": {
                    "step": 0,
                    "error": error if start_counts else math.inf,
                    "facts": dict(facts),
                    "variables": training.keep(state, number),
                },
            }
            for number, (error, facts) in enumerate(training.evaluate(state))
        ]

    def list_going() -> list[int]:
        return [number for number, trial in enumerate(trials) if trial["going"]]

    for ctx, trial, rate in zip(contexts, trials, rates, strict=True):
        for row in trial["curve"]:
            _log(ctx, row, rate)
    for step, (state, reports) in take_steps(  # noqa: B020
        (first.replicate(state), ()),
        step,
        last,
        lambda before, start, end: training.advance(before[0], start, end),
        every=every,
        goes_on=list_going,
    ):
        first.progress(step, steps)
        for number in list_going():
            trials[number]["steps"] = step
            if reports[number][1] < step:
                trials[number] |= {"going": False, "diverged_at": reports[number][1]}
                rate = hypers[number]["learning_rate"]
                _warn(
                    f"{training.name}, trial {contexts[number].trial}", trials[number], rate, steps
                )
        if not (going := list_going()):
            break
        evaluations = training.evaluate(state)
        for number in going:
            trial, (error, facts) = trials[number], evaluations[number]
            trial["curve"].append([step, round_value(reports[number][0]), round_value(error)])
            _log(contexts[number], trial["curve"][-1], rates[number])
            if error <= trial["best"]["error"]:
                parameters = training.keep(state, number)
                trial["best"] = {
                    "step": step,
                    "error": error,
                    "facts": dict(facts),
                    "variables": parameters,
                }
            trial["going"] = not (stop and stop(trial["curve"]))
        first.checkpoint(
            step,
            lambda: {
                "state": state,  # noqa: B023 - called at once
                "trials": trials,
                "meters": [ctx.meter.counts() for ctx in contexts[1:]],
            },
        )
    results = [_result(trial, hyper) for trial, hyper in zip(trials, hypers, strict=True)]
    for trial, result in zip(trials, results, strict=True):
        if trial["going"] and step < steps:
            result["position"] = {"step": step, "state": to_host(state), "trials": [trial]}
    return results


def _result(trial: Mapping[str, Any], hyper: Mapping[str, Any]) -> Tree:
    best = trial["best"]
    info = {"hyper": dict(hyper), "dev_error": round_value(best["error"])}
    info |= {name: trial[name] for name in ("steps", "diverged_at", "curve")}
    return {
        "variables": best["variables"],
        "step": best["step"],
        "info": info | best["facts"],
    }


def _log(ctx: Context, row: Sequence[Any], rates: np.ndarray) -> None:
    """Logs a row of a trial's curve, with the learning rate of its last step."""
    step, train_loss, dev_error = row
    rate = float(rates[step - 1]) if step else None
    ctx.log(step, train_loss=train_loss, dev_error=dev_error, learning_rate=rate)


def _warn(name: str, trial: Mapping[str, Any], rate: float, steps: int) -> None:
    warnings.warn(
        f"{name}: the loss was not finite at step {trial['diverged_at'] + 1} of {steps} (learning "
        f"rate {rate:.3g}), so the trial ends with its parameters of step {trial['best']['step']}.",
        RunWarning,
        stacklevel=4,
    )


def measure_dev_error(labels: np.ndarray, probabilities: np.ndarray, kind: str) -> float:
    """Returns the error rate, or 1 - mAP; infinity if an answer is not finite.

    If mAP is undefined (no positive in dev), returns the mean error over labels at threshold 0.5.
    The paper's code selects multi-label models by that error; here the selection uses the metric by
    which they are judged.
    """
    if not np.isfinite(probabilities).all():
        return math.inf
    metric = metrics.find_metric(kind)
    value = metric.aggregate(labels, probabilities)
    if math.isnan(value):
        return float(1 - metric.per_sample(labels, probabilities).mean())
    return float(metric.to_error(value))


def round_value(value: float) -> float | None:
    """Returns a number as it is recorded: with the seven digits of float32, infinity as None."""
    return float(f"{value:.7g}") if math.isfinite(value) else None
