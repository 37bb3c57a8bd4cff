"""Intervals of a difference between two methods: over tasks and seeds, or over seeds alone.

There are two questions. `bound_over_tasks`: would A beat B on other tasks like these, in other
runs? Both tasks and seeds are random samples. `bound_over_seeds`: would A beat B on these same
tasks, in other runs? Only the seeds are random. Decisions 0017 and 0026 give the reasons for these
forms; coverage is measured in docs/evidence/interval-coverage.md.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit

from nevis_stream.errors import BadInput

LEVEL = 0.95
REPLICATES = 4000
FEWEST_TASKS = 4


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95% interval.

    Attributes:
      estimate: the mean over tasks of A's mean over seeds minus B's.
      low, high: the interval's ends; NaN without one.
      tasks: number of tasks.
      seeds: number of seeds of A and of B.
      reason: why there is no interval; empty otherwise.
      variances: of a single run of A and of B, in an interval over seeds; NaN otherwise.
    """

    estimate: float
    low: float
    high: float
    tasks: int
    seeds: tuple[int, int]
    reason: str = ""
    variances: tuple[float, float] = (math.nan, math.nan)

    @property
    def possible(self) -> "Interval":
        """The interval of a difference of errors, which are in [0, 1]: cut at -1 and 1."""
        return replace(
            self, low=float(np.clip(self.low, -1, 1)), high=float(np.clip(self.high, -1, 1))
        )

    @property
    def side(self) -> int:
        """-1 if the whole interval is below zero, 1 if it is above; 0 otherwise."""
        return int(self.low > 0) - int(self.high < 0)


def bound_over_tasks(a: np.ndarray, b: np.ndarray, key: int = 0) -> Interval:
    """Returns the interval of the mean difference over tasks like these and runs like these.

    Over tasks: a studentised bootstrap of the tasks' differences, the same draws for both methods,
    on neither side shorter than Student's t. Noise that all tasks of a run share does not show in
    the spread over tasks: its half-width comes from the runs' means, and the two are added in
    quadrature. A method with a single seed adds nothing to that: one run cannot show such noise.

    Args:
      a, b: float[tasks, seeds], finite; the same tasks in the same order, seeds of any number.
      key: of the random draws; equal keys give equal intervals.

    Raises:
      BadInput: other shapes, or values that are not finite.

    Source: Efron and Tibshirani 1993, section 12.5 (bootstrap-t); Polansky 2000 (few values);
    Zou and Donner 2008 (limits added in quadrature).
    """
    _check(a, b)
    tasks, seeds = len(a), (a.shape[1], b.shape[1])
    differences = a.mean(axis=1) - b.mean(axis=1)
    estimate = float(differences.mean())
    if tasks < FEWEST_TASKS:
        reason = (
            f"an interval for other tasks needs at least {FEWEST_TASKS} tasks; there"
            f" {'is' if tasks == 1 else 'are'} {tasks}"
        )
        return Interval(estimate, math.nan, math.nan, tasks, seeds, reason)
    below, above = np.hypot(_measure_reach(differences - estimate, key), _measure_run_noise(a, b))
    return Interval(estimate, estimate - float(below), estimate + float(above), tasks, seeds)


def bound_over_seeds(a: np.ndarray, b: np.ndarray) -> Interval:
    """Returns the interval of the mean difference on these same tasks: Welch's t on the runs'
    means.

    A bootstrap of three values covers far less than 95%, so it is not used here.

    Args:
      a, b: as in `bound_over_tasks`; one task is enough.

    Raises:
      BadInput: other shapes, or values that are not finite.

    Source: Welch 1947.
    """
    _check(a, b)
    runs = a.mean(axis=0), b.mean(axis=0)
    estimate = float(runs[0].mean() - runs[1].mean())
    seeds = len(runs[0]), len(runs[1])
    if min(seeds) < 2:
        reason = "one seed does not show the variation between seeds"
        return Interval(estimate, math.nan, math.nan, len(a), seeds, reason)
    variance, freedom = _welch(runs)
    if variance <= np.finfo(float).eps ** 2:
        reason = "all seeds gave the same error"
        return Interval(estimate, math.nan, math.nan, len(a), seeds, reason)
    half = float(stdtrit(freedom, (1 + LEVEL) / 2)) * math.sqrt(variance)
    low, high = estimate - half, estimate + half
    variances = float(runs[0].var(ddof=1)), float(runs[1].var(ddof=1))
    return Interval(estimate, low, high, len(a), seeds, variances=variances)


def _check(a: np.ndarray, b: np.ndarray) -> None:
    if a.ndim != 2 or b.ndim != 2 or len(a) != len(b) or not a.size or not b.size:
        raise BadInput(
            f"errors of shapes {a.shape} and {b.shape} are not [tasks, seeds] of the same tasks."
        )
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise BadInput("errors to be compared must be finite; leave out tasks that have none.")


def _measure_reach(deviations: np.ndarray, key: int) -> np.ndarray:
    """float[2]: how far the interval over tasks reaches below and above the mean.

    A draw's variance is averaged with that of all tasks, which counts as one task in n. Draws that
    repeat one or two tasks have almost no variance of their own and would make the interval of a
    few tasks unbounded.
    """
    tasks = len(deviations)
    variance = deviations @ deviations / (tasks - 1)
    if variance <= np.finfo(float).eps ** 2:
        return np.zeros(2)
    drawn = _draw(tasks, key)
    means = drawn @ deviations / tasks
    squares = drawn @ deviations**2 - tasks * means**2
    pivots = means / np.sqrt(np.maximum(squares, 0) + variance)
    tails = (
        np.quantile(pivots, [(1 + LEVEL) / 2, (1 - LEVEL) / 2], method="inverted_cdf")
        * tasks
        * [1, -1]
    )
    return np.maximum(tails, stdtrit(tasks - 1, (1 + LEVEL) / 2)) * math.sqrt(variance / tasks)


def _measure_run_noise(a: np.ndarray, b: np.ndarray) -> float:
    """The half-width of the noise that whole runs share: by Welch's t on their means, less the
    noise of single tasks in these means.
    """
    methods = [errors for errors in (a, b) if errors.shape[1] > 1]
    if not methods:
        return 0.0
    variance, freedom = _welch([errors.mean(axis=0) for errors in methods])
    for errors in methods:
        rest = errors - errors.mean(axis=1, keepdims=True) - errors.mean(axis=0) + errors.mean()
        variance -= float((rest**2).sum()) / (len(rest) - 1) / (rest.shape[1] - 1) / rest.size
    return float(stdtrit(freedom, (1 + LEVEL) / 2)) * math.sqrt(variance) if variance > 0 else 0.0


def _welch(runs: Sequence[np.ndarray]) -> tuple[float, float]:
    """Returns the variance of the difference of the methods' means, and its degrees of freedom (NaN
    if the variance is 0).
    """
    parts = [float(run.var(ddof=1)) / len(run) for run in runs]
    spread = sum(part**2 / (len(run) - 1) for part, run in zip(parts, runs, strict=True))
    return sum(parts), sum(parts) ** 2 / spread if spread else math.nan


@functools.lru_cache(maxsize=32)
def _draw(n: int, key: int) -> np.ndarray:
    """float[REPLICATES, n]: how often each of n tasks is drawn, with replacement."""
    draws = (
        np.random.default_rng([key, n])
        .multinomial(n, np.full(n, 1 / n), size=REPLICATES)
        .astype(float)
    )
    draws.setflags(write=False)
    return draws
