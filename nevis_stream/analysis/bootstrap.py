"""Intervals of a difference between two methods: over tasks and seeds, or over seeds alone.

Two questions, two intervals. `over_tasks`: would A beat B on other tasks like these, in other runs?
The tasks are a random sample and so are the seeds. `over_seeds`: would A beat B on these very tasks,
in other runs? Only the seeds are random. Decision 0017 says why these forms; coverage is measured in
benchmarks/RESULTS.md.
"""

import functools
import math
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
      low, high: the interval's ends; NaN where there is none.
      tasks: number of tasks.
      seeds: number of seeds of A and of B.
      reason: why there is no interval; empty otherwise.
    """

    estimate: float
    low: float
    high: float
    tasks: int
    seeds: tuple[int, int]
    reason: str = ""

    @property
    def possible(self) -> "Interval":
        """The interval of a difference of errors, which lie in [0, 1]: cut at -1 and 1, whatever a few tasks or seeds say."""
        return replace(self, low=float(np.clip(self.low, -1, 1)), high=float(np.clip(self.high, -1, 1)))

    @property
    def side(self) -> int:
        """-1 where the whole interval is below zero, 1 where it is above, else (or without one) 0."""
        return int(self.low > 0) - int(self.high < 0)


def over_tasks(a: np.ndarray, b: np.ndarray, key: int = 0) -> Interval:
    """Returns the interval of the mean difference over tasks like these and runs like these.

    Studentised bootstrap: each replicate draws tasks (the same for both methods) and, for each
    method, whole runs; a run's deviation from its method's mean is widened by sqrt(s / (s - 1)), as
    few seeds show too little of it. The replicate's standard error is the one over tasks. A single
    seed is kept as it is: noise that all tasks of a run share is then not in the interval.

    Args:
      a, b: float[tasks, seeds], finite; the same tasks in the same order, seeds of any number.
      key: of the random draws; equal keys give equal intervals.

    Raises:
      BadInput: other shapes, or values that are not finite.

    Source: Efron and Tibshirani 1993, section 12.5 (bootstrap-t); Owen 2007 (tasks and runs crossed).
    """
    _check(a, b)
    tasks, seeds = len(a), (a.shape[1], b.shape[1])
    differences = a.mean(axis=1) - b.mean(axis=1)
    estimate = float(differences.mean())
    if tasks < FEWEST_TASKS:
        reason = f"{tasks} task{'s' * (tasks != 1)}: fewer than {FEWEST_TASKS} tell nothing of others"
        return Interval(estimate, math.nan, math.nan, tasks, seeds, reason)
    drawn = _counts(tasks, key, 0)
    resampled = _runs_drawn(a, key, 1) - _runs_drawn(b, key, 2)
    means = (drawn * resampled).sum(axis=1) / tasks
    squares = (drawn * (resampled - means[:, None]) ** 2).sum(axis=1)
    errors = np.sqrt(squares / (tasks - 1) / tasks)
    with np.errstate(divide="ignore", invalid="ignore"):
        pivots = np.nan_to_num((means - estimate) / errors, nan=0.0, posinf=np.inf, neginf=-np.inf)
    tails = np.quantile(pivots, [(1 + LEVEL) / 2, (1 - LEVEL) / 2], method="inverted_cdf")
    error = differences.std(ddof=1) / math.sqrt(tasks)
    low, high = estimate - tails * error if error else (estimate, estimate)
    return Interval(estimate, float(low), float(high), tasks, seeds)


def over_seeds(a: np.ndarray, b: np.ndarray) -> Interval:
    """Returns the interval of the mean difference on these very tasks: Welch's t on the runs' means.

    A bootstrap of three values covers far less than it says, so there is none here.

    Args:
      a, b: as in `over_tasks`; one task will do.

    Raises:
      BadInput: other shapes, or values that are not finite.

    Source: Welch 1947.
    """
    _check(a, b)
    runs = a.mean(axis=0), b.mean(axis=0)
    estimate = float(runs[0].mean() - runs[1].mean())
    seeds = len(runs[0]), len(runs[1])
    nothing = Interval(estimate, math.nan, math.nan, len(a), seeds)
    if min(seeds) < 2:
        return _without(nothing, "one seed tells nothing of the noise between seeds")
    parts = [run.var(ddof=1) / len(run) for run in runs]
    variance = sum(parts)
    if variance <= np.finfo(float).eps ** 2:
        return _without(nothing, "all seeds gave the same error")
    freedom = variance**2 / sum(part**2 / (n - 1) for part, n in zip(parts, seeds, strict=True))
    half = float(stdtrit(freedom, (1 + LEVEL) / 2) * math.sqrt(variance))
    return Interval(estimate, estimate - half, estimate + half, len(a), seeds)


def _check(a: np.ndarray, b: np.ndarray) -> None:
    if a.ndim != 2 or b.ndim != 2 or len(a) != len(b) or not a.size or not b.size:
        raise BadInput(f"errors of shapes {a.shape} and {b.shape} are not [tasks, seeds] of the same tasks.")
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise BadInput("errors to be compared must be finite; leave out tasks without one.")


def _without(interval: Interval, reason: str) -> Interval:
    return Interval(interval.estimate, math.nan, math.nan, interval.tasks, interval.seeds, reason)


@functools.lru_cache(maxsize=64)
def _counts(n: int, key: int, stream: int) -> np.ndarray:
    """float[REPLICATES, n]: how often each of n things is drawn, with replacement."""
    draws = np.random.default_rng([key, stream]).multinomial(n, np.full(n, 1 / n), size=REPLICATES)
    draws.setflags(write=False)
    return draws


def _runs_drawn(errors: np.ndarray, key: int, stream: int) -> np.ndarray:
    """float[REPLICATES or 1, tasks]: each task's mean over the drawn runs, deviations widened."""
    means = errors.mean(axis=1)
    seeds = errors.shape[1]
    if seeds == 1:
        return means[None]
    widened = (errors - means[:, None]) * math.sqrt(seeds / (seeds - 1))
    return means + _counts(seeds, key, stream) / seeds @ widened.T
