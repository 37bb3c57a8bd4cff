"""Repetitions of active tests on pools whose labels are known."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nevis_stream.active_testing.acquisition_functions import RULES, ProportionalSampling, TopK
from nevis_stream.active_testing.estimators import ESTIMATORS
from nevis_stream.active_testing.pool import Pool
from nevis_stream.active_testing.surrogate import PUBLISHED, Schedule
from nevis_stream.active_testing.testing import KnownLabels, Surrogate, run_active_test
from nevis_stream.errors import look_up
from nevis_stream.seeds import generator

HIGHEST = "!"  # after the name of a rule


@dataclass(frozen=True)
class Acquisition:
    """A rule and how its scores become samples.

    Attributes:
      name: the rule's name, which ends in "!" if the highest scores are taken.
      rule: a name of `acquisition_functions.RULES`.
      choose: how scores become samples.
    """

    name: str
    rule: str
    choose: ProportionalSampling | TopK

    @classmethod
    def named(
        cls,
        name: str,
        sampling: ProportionalSampling = ProportionalSampling(),  # noqa: B008, it is frozen
    ) -> "Acquisition":
        """Returns the acquisition of a name: "xwed" draws, "xwed!" takes the highest scores.

        >>> Acquisition.named("bald!").choose
        TopK()
        """
        rule = name.removesuffix(HIGHEST)
        look_up(RULES, "acquisition rule", rule)
        return cls(name, rule, TopK() if name.endswith(HIGHEST) else sampling)


@dataclass(frozen=True)
class SimulatedPath:
    """One active test.

    Attributes:
      samples: int64[M], in the order in which they were asked.
      steps: int64[s], numbers of labels.
      estimates: float64[estimators, s, 3]: value, low and high after each of these numbers; NaN if
        there is none.
    """

    samples: np.ndarray
    steps: np.ndarray
    estimates: np.ndarray


def simulate(
    pool: Pool,
    labels: np.ndarray,
    surrogate: Surrogate,
    acquisition: Acquisition,
    budget: int,
    seed: int,
    estimators: Sequence[str] = tuple(ESTIMATORS),
    steps: Sequence[int] = PUBLISHED,
) -> SimulatedPath:
    """Returns an active test of a pool with known labels.

    Args:
      pool: the tested model.
      labels: int[n].
      surrogate: is retrained after the numbers of labels in `steps`.
      acquisition: which samples are asked.
      budget: number of labels.
      seed: of the draws.
      estimators: names of `estimators.ESTIMATORS`.
      steps: increasing numbers of labels, at which estimates are made.
    """
    schedule = Schedule(tuple(steps))
    rows, counts = [], []
    draws = None
    for draws in run_active_test(
        pool,
        schedule.applied(surrogate),
        KnownLabels(labels),
        budget,
        generator(seed, "draws"),
        acquisition.rule,
        acquisition.choose,
        schedule.batch,
    ):
        each = [ESTIMATORS[name](draws) for name in estimators]
        rows.append([(one.value, one.low, one.high) for one in each])
        counts.append(draws.asked)
    return SimulatedPath(draws.samples, np.asarray(counts), np.asarray(rows).transpose(1, 0, 2))


def compare_squared_errors(
    estimates: np.ndarray, risks: np.ndarray, variances: np.ndarray, asked: int, n: int
) -> tuple[float, float]:
    """Returns the median and the mean squared error, divided by those of Monte Carlo.

    Monte Carlo's are computed, not simulated: its mean squared error without replacement is
    σ² (1/M - 1/n), and its median .455 times that, for a normal error. Both are averaged over the
    repetitions.

    Args:
      estimates: float64[r], one for each repetition, after the same number of labels.
      risks: float64[r], the true ones.
      variances: float64[r], σ² of the losses of each repetition's pool.
      asked: number of labels, M.
      n: number of samples of the pool.
    """
    squares = (estimates - risks) ** 2
    plain = float(np.mean(variances)) * (1 / asked - 1 / n)
    return float(np.median(squares)) / (0.455 * plain), float(np.mean(squares)) / plain
