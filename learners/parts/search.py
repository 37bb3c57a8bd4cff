"""Hyper-parameter search: which values the trials of one task get."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from nevis_stream.errors import BadInput

Hyper = dict[str, float]
"""Hyper-parameters of one trial, by name: `learning_rate`, `label_smoothing`."""

LOGARITHMIC = ("learning_rate",)


@dataclass(frozen=True)
class RandomSearch:
    """Independent draws: log-uniform for the learning rate, uniform for the rest.

    Attributes:
      trials: number of trials a task.
      space: low and high by hyper-parameter.
    """

    trials: int
    space: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def __post_init__(self):
        for name, (low, high) in self.space.items():
            if not low <= high or (name in LOGARITHMIC and low <= 0):
                raise BadInput(f"search space of {name}: from {low} to {high} is no range for it.")

    def draw(self, seed: int) -> list[Hyper]:
        """Returns one set of values a trial; trial i gets the same values whatever the number of trials."""
        return [self._one(np.random.RandomState([seed & 0xFFFFFFFF, seed >> 32, i])) for i in range(self.trials)]

    def _one(self, random: np.random.RandomState) -> Hyper:
        values = {}
        for name in sorted(self.space):
            low, high = self.space[name]
            share = random.uniform()
            if name in LOGARITHMIC:
                values[name] = float(np.exp(np.log(low) + share * (np.log(high) - np.log(low))))
            else:
                values[name] = float(low + share * (high - low))
        return values


@dataclass(frozen=True)
class GridSearch:
    """Every combination of the listed values.

    Attributes:
      space: values by hyper-parameter.
    """

    space: Mapping[str, Sequence[float]] = field(default_factory=dict)

    @property
    def trials(self) -> int:
        """Number of trials a task."""
        return len(self.draw(0))

    def draw(self, seed: int) -> list[Hyper]:
        """Returns one set of values a trial; the seed plays no part."""
        names = sorted(self.space)
        return [
            dict(zip(names, map(float, values), strict=True))
            for values in itertools.product(*(self.space[name] for name in names))
        ]
