"""Hyper-parameter search, which chooses the values of the trials of one task, and successive
halving, which trains only the best of them to the end (Jamieson and Talwalkar, 2016).

All trials of a rung are compared at the same step, as in synchronous ASHA, so that the result does
not depend on the executor. Each piece of a trial is a trial of `ctx.map`, so the FLOPs of pruned
trials are counted.
"""

import itertools
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from nevis_stream.learner import Context
from nevis_stream.storage.checkpoint import Tree

Hyper = dict[str, Any]
"""Hyper-parameters of a trial (`learning_rate`, `label_smoothing`, …): numbers or choices."""

Space = Mapping[str, Sequence[Any]]
"""(low, high) of each hyper-parameter; in a grid, and for `CHOICES`, its possible values."""

Evaluate = Callable[[Sequence[Hyper]], list[Tree]]
"""Runs a trial for each set of values; returns their results in order, with `info["dev_error"]`."""

LOGARITHMIC = ("learning_rate",)
# those that only BHPO's large space has (NEVIS'22, Appendix H)
CHOICES = ("schedule", "batch", "network", "crop", "flip")
RANDOM_FIRST = 3  # trials of a Bayesian search before its model chooses
_CANDIDATES = 2048


class Search(Protocol):
    """Runs the trials of one task.

    Attributes:
      trials: number of trials.
    """

    trials: int

    @property
    def at_once(self) -> int:
        """Number of trials that start before any result is known."""
        ...

    def run(self, seed: int, evaluate: Evaluate) -> list[Tree]:
        """Runs the trials; returns results in the order of their starts. `seed` is the task's."""
        ...


def _value(name: str, values: Sequence[Any], share: float) -> Any:
    """Returns the value at a share of the way from low to high, on its scale, or the choice."""
    if name in CHOICES:
        return values[min(int(share * len(values)), len(values) - 1)]
    low, high = values
    if name in LOGARITHMIC:
        return float(np.exp(np.log(low) + share * (np.log(high) - np.log(low))))
    return float(low + share * (high - low))


class _DrawnSearch(ABC):
    """A search that draws the values of all trials before any result is known."""

    trials: int

    @abstractmethod
    def draw(self, seed: int) -> list[Hyper]:
        """Returns the values of each trial."""

    @property
    def at_once(self) -> int:
        """Number of trials that start before any result is known: all."""
        return self.trials

    def run(self, seed: int, evaluate: Evaluate) -> list[Tree]:
        """Runs all trials."""
        return evaluate(self.draw(seed))


@dataclass(frozen=True)
class RandomSearch(_DrawnSearch):
    """Draws values independently: learning rates log-uniformly, the others uniformly.

    Attributes:
      trials: number of trials per task.
      space: (low, high) of each hyper-parameter, or its choices.
    """

    trials: int
    space: Space = field(default_factory=dict)

    def draw(self, seed: int) -> list[Hyper]:
        """Returns the values of each trial, which do not depend on the number of trials."""
        hypers = []
        for trial in range(self.trials):
            random = np.random.RandomState([seed & 0xFFFFFFFF, seed >> 32, trial])
            names = sorted(self.space)
            hypers.append(
                {name: _value(name, self.space[name], random.uniform()) for name in names}
            )
        return hypers


@dataclass(frozen=True)
class GridSearch(_DrawnSearch):
    """Runs every combination of the listed values.

    Attributes:
      space: the values of each hyper-parameter.
    """

    space: Space = field(default_factory=dict)

    @property
    def trials(self) -> int:
        """Number of trials per task."""
        return len(self.draw(0))

    def draw(self, seed: int) -> list[Hyper]:
        """Returns the values of each trial, whatever the seed."""
        names = sorted(self.space)
        columns = [
            self.space[name] if name in CHOICES else map(float, self.space[name]) for name in names
        ]
        return [dict(zip(names, values, strict=True)) for values in itertools.product(*columns)]


@dataclass(frozen=True)
class BayesianSearch:
    """Runs one trial after the other, each chosen by a Gaussian process (BHPO).

    The process (Matérn 5/2 with a length scale for each hyper-parameter, and noise) is fitted to
    the dev errors so far; the next trial is the candidate with the lowest mean - kappa × deviation
    (UCB). The first three trials are those of a random search. The few FLOPs of the fit are not
    counted.

    Source: NEVIS'22, Appendix H.

    Attributes:
      trials: number of trials per task.
      space: (low, high) of each hyper-parameter, or its choices.
      kappa: weight of the deviation.
    """

    trials: int
    space: Space = field(default_factory=dict)
    kappa: float = 1.96

    @property
    def at_once(self) -> int:
        """Number of trials that start before any result is known: those drawn at random."""
        return min(RANDOM_FIRST, self.trials)

    def run(self, seed: int, evaluate: Evaluate) -> list[Tree]:
        """Runs the trials one after the other."""
        hypers = RandomSearch(self.at_once, self.space).draw(seed)
        results = evaluate(hypers)
        names = sorted(self.space)
        points = [[self._share(name, hyper[name]) for name in names] for hyper in hypers]
        random = np.random.RandomState([seed & 0xFFFFFFFF, seed >> 32, 11])
        while len(results) < self.trials:
            errors = [result["info"]["dev_error"] for result in results]
            shares = zip(names, self._next(np.asarray(points), errors, random), strict=True)
            hyper = {name: _value(name, self.space[name], share) for name, share in shares}
            points.append([self._share(name, hyper[name]) for name in names])
            results += evaluate([hyper])
        return results

    def _share(self, name: str, value: Any) -> float:
        """Returns the position in [0, 1] of a value between low and high, or among the choices."""
        if name in CHOICES:
            return (list(self.space[name]).index(value) + 0.5) / len(self.space[name])
        low, high = (
            np.log(self.space[name]) if name in LOGARITHMIC else np.asarray(self.space[name], float)
        ).tolist()
        value = float(np.log(value)) if name in LOGARITHMIC else value
        return (value - low) / (high - low) if high > low else 0.0

    def _next(
        self, points: np.ndarray, errors: Sequence[float | None], random: np.random.RandomState
    ) -> list[float]:
        """Returns the shares of the next trial; a trial without dev error counts as error 1."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import Matern, WhiteKernel

        values = np.asarray([1.0 if error is None else error for error in errors])
        scales = np.full(points.shape[1], 0.3)
        kernel = Matern(scales, (0.05, 5.0), nu=2.5) + WhiteKernel(1e-2, (1e-4, 1.0))
        process = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
        candidates = random.uniform(size=(_CANDIDATES, points.shape[1]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            mean, deviation = process.fit(points, values).predict(candidates, return_std=True)
        return candidates[np.argmin(mean - self.kappa * deviation)].tolist()


Piece = Callable[[Context, dict[str, Any]], Tree]
"""Trains with `item["hyper"]` from `item["position"]` (None: the start) to step `item["until"]`."""


@dataclass(frozen=True)
class Halving:
    """Decides which trials continue.

    Attributes:
      keep: at each rung, one in `keep` trials continues (η).
      rungs: number of rungs; the first is at the evaluation on dev nearest to
        steps / keep**rungs.
    """

    keep: int = 2
    rungs: int = 2

    def list_rung_steps(self, steps: int, every: int) -> list[int]:
        """Returns the steps of the rungs, which are multiples of `every`, and the last step."""
        wanted = [steps / self.keep**rung for rung in range(self.rungs, 0, -1)]
        return sorted({max(every, round(each / every) * every) for each in wanted} - {steps}) + [
            steps
        ]

    def run(
        self, ctx: Context, piece: Piece, hypers: Sequence[Hyper], steps: int, every: int
    ) -> list[Tree]:
        """Returns the result of the last piece of each trial, in the order of `hypers`.

        In `info`, `pruned_at` is the step at which a trial was pruned, and `continues` the number
        of the trial that ran the piece before.
        """
        results: list[Tree] = [{}] * len(hypers)
        alive = list(range(len(hypers)))
        for stop in self.list_rung_steps(steps, every):
            items = [
                {
                    "hyper": hypers[i],
                    "until": stop,
                    "position": results[i].pop("position", None) if results[i] else None,
                }
                for i in alive
            ]
            for i, result in zip(alive, ctx.map(piece, items), strict=True):
                if results[i]:
                    result["info"]["continues"] = results[i]["trial"]
                results[i] = result
            going = [i for i in alive if "position" in results[i]]
            going = sorted(going, key=lambda i: (_error(results[i]), i))[
                : -(-len(alive) // self.keep)
            ]
            for i in set(alive) - set(going):
                if results[i].pop("position", None) is not None:
                    results[i]["info"]["pruned_at"] = stop
            alive = sorted(going)
        return results


def _error(result: Tree) -> float:
    error = result["info"]["dev_error"]
    return float("inf") if error is None else error
