"""Hyper-parameter search: which values the trials of one task get."""

import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from nevis_stream.errors import BadInput
from nevis_stream.run_directory.checkpoint import Tree

Hyper = dict[str, Any]
"""Hyper-parameters of one trial, by name: `learning_rate`, `label_smoothing`, …: numbers, or one of
some choices.
"""

Space = Mapping[str, Sequence[Any]]
"""Of each hyper-parameter (low, high), or in a grid and for `CHOICES` the values it may have."""

Evaluate = Callable[[Sequence[Hyper]], list[Tree]]
"""Runs one trial for each set of values and returns their results in order; each has `info` with
`dev_error`.
"""

LOGARITHMIC = ("learning_rate",)
# the rest of BHPO's large space (NEVIS'22, Appendix H)
CHOICES = ("schedule", "batch", "network", "crop", "flip")
RANDOM_FIRST = 3  # trials of a sequential search that are drawn before its model chooses
_CANDIDATES = 2048


class Search(Protocol):
    """Runs the trials of one task.

    Attributes:
      trials: how many.
    """

    trials: int

    @property
    def at_once(self) -> int:
        """The number of trials that are begun before any result is known."""
        ...

    def run(self, seed: int, evaluate: Evaluate) -> list[Tree]:
        """Returns the results of the trials in the order of their starts; `seed` is the task's."""
        ...


def _value(name: str, values: Sequence[Any], share: float) -> Any:
    """Returns the value at a share of the way from low to high, or the choice there.

    On the scale of the hyper-parameter.
    """
    if name in CHOICES:
        return values[min(int(share * len(values)), len(values) - 1)]
    low, high = values
    if name in LOGARITHMIC:
        return float(np.exp(np.log(low) + share * (np.log(high) - np.log(low))))
    return float(low + share * (high - low))


def _check(space: Space) -> None:
    for name, values in space.items():
        if name in CHOICES:
            if not values:
                raise BadInput(f"search space of {name}: it has no choice.")
            continue
        low, high = values
        if not low <= high or (name in LOGARITHMIC and low <= 0):
            raise BadInput(f"search space of {name}: from {low} to {high} is no range for it.")


@dataclass(frozen=True)
class RandomSearch:
    """Independent draws: log-uniform for the learning rate, uniform for the rest.

    Attributes:
      trials: number of trials a task.
      space: low and high by hyper-parameter.
    """

    trials: int
    space: Space = field(default_factory=dict)

    def __post_init__(self):
        _check(self.space)

    @property
    def at_once(self) -> int:
        """All."""
        return self.trials

    def run(self, seed: int, evaluate: Evaluate) -> list[Tree]:
        """Runs all trials, in any order."""
        return evaluate(self.draw(seed))

    def draw(self, seed: int) -> list[Hyper]:
        """Returns one set of values a trial; trial i's do not depend on the number of trials."""
        return [
            self._one(np.random.RandomState([seed & 0xFFFFFFFF, seed >> 32, i]))
            for i in range(self.trials)
        ]

    def _one(self, random: np.random.RandomState) -> Hyper:
        return {
            name: _value(name, self.space[name], random.uniform()) for name in sorted(self.space)
        }


@dataclass(frozen=True)
class GridSearch:
    """Every combination of the listed values.

    Attributes:
      space: values by hyper-parameter.
    """

    space: Space = field(default_factory=dict)

    @property
    def trials(self) -> int:
        """Number of trials a task."""
        return len(self.draw(0))

    @property
    def at_once(self) -> int:
        """All."""
        return self.trials

    def run(self, seed: int, evaluate: Evaluate) -> list[Tree]:
        """Runs all trials, in any order."""
        return evaluate(self.draw(seed))

    def draw(self, seed: int) -> list[Hyper]:
        """Returns one set of values a trial; the seed plays no part."""
        names = sorted(self.space)
        return [
            {
                n: value if n in CHOICES else float(value)
                for n, value in zip(names, values, strict=True)
            }
            for values in itertools.product(*(self.space[name] for name in names))
        ]


@dataclass(frozen=True)
class BayesianSearch:
    """One trial after the other, each where a Gaussian process promises most (BHPO).

    Source: NEVIS'22, Appendix H.

    The process (Matérn 5/2 with its own scale for each hyper-parameter, and noise) is fitted to the
    dev errors so far; the next trial is the candidate with the lowest mean - kappa × deviation
    (UCB). The first three are those of a random search. The few FLOPs of the fit are not counted.

    Attributes:
      trials: number of trials a task.
      space: low and high by hyper-parameter.
      kappa: weight of the deviation.
    """

    trials: int
    space: Space = field(default_factory=dict)
    kappa: float = 1.96

    def __post_init__(self):
        _check(self.space)

    @property
    def at_once(self) -> int:
        """Those that are drawn at random."""
        return min(RANDOM_FIRST, self.trials)

    def run(self, seed: int, evaluate: Evaluate) -> list[Tree]:
        """Runs the trials one after the other."""
        drawn = RandomSearch(self.at_once, self.space).draw(seed)
        results = evaluate(drawn)
        names = sorted(self.space)
        points = [[self._share(name, hyper[name]) for name in names] for hyper in drawn]
        random = np.random.RandomState([seed & 0xFFFFFFFF, seed >> 32, 11])
        while len(results) < self.trials:
            errors = [result["info"]["dev_error"] for result in results]
            hyper = {
                name: _value(name, self.space[name], share)
                for name, share in zip(
                    names, self._next(np.asarray(points), errors, random), strict=True
                )
            }
            points.append([self._share(name, hyper[name]) for name in names])
            results += evaluate([hyper])
        return results

    def _share(self, name: str, value: Any) -> float:
        """Returns the position in [0, 1] of a value between low and high, or of a choice."""
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
        """Returns the shares of the next trial; no dev error counts as an error of 1."""
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
