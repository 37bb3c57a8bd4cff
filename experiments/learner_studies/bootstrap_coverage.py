"""How often 95% intervals of the difference between two methods cover the truth, as tables.

    python -m experiments.learner_studies.bootstrap_coverage --simulations=1000
    python -m experiments.learner_studies.bootstrap_coverage --tables=main,few

Each simulation draws a stream of tasks and the runs of two methods. The error of method A on task t
in the run with seed s is base_t + effect_t + noise_ts + shift_s, of method B the same without
effect, with noise and shift of its own.

  effect  what A gains or loses on a task, with mean 0 over all tasks there are. "published": drawn
  from FT-d - Indep on the
          104 tasks of NEVIS'22, Appendix N (skewed: a few tasks gain much); "skewed" (log-normal),
          "heavy" (Student's t with 3 degrees of freedom) and "normal", each with standard deviation
          5 points; "none": the two methods are equal.
  noise   of a run on one task: standard deviation 1.6 points, more on some tasks (log-normal, sigma
    0.6).
  shift   of a whole run, shared by its tasks: standard deviation 0, 0.3 or 1 point. 1.6 points of
  noise over 27 tasks alone
          give a mean error with standard deviation 0.3 points, as published for Indep over 3 seeds;
          a shift comes on top.
"""

import time
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
from scipy import stats

from nevis_stream.analysis.bootstrap import bound_over_seeds, bound_over_tasks
from nevis_stream.catalogue import published
from nevis_stream.experiments import engine
from nevis_stream.experiments.scripts import describe

KEYS = 16  # sets of draws, shared by the simulations in turn


@dataclass(frozen=True)
class Setting:
    """How tasks and runs are drawn; standard deviations as fractions of 1."""

    effect: str
    tasks: int
    seeds: int
    shift: float = 0.003
    noise: float = 0.016

    @property
    def title(self) -> str:
        """The setting in the first column of the tables."""
        return f"{self.effect}, {self.tasks} × {self.seeds}, shift {100 * self.shift:g}"


MAIN = [
    Setting("published", 27, 3),
    Setting("published", 27, 3, shift=0),
    Setting("published", 106, 1, shift=0),
    Setting("normal", 27, 3),
]
HARD = [
    Setting("skewed", 27, 3),
    Setting("heavy", 27, 3),
    Setting("published", 27, 3, shift=0.01),
    Setting("none", 27, 3, shift=0),
    Setting("none", 27, 3),
    Setting("published", 27, 1),
    Setting("skewed", 106, 1, shift=0),
    Setting("heavy", 106, 1, shift=0),
    Setting("published", 106, 1),
    Setting("published", 106, 3),
    Setting("none", 106, 3),
    Setting("none", 27, 2),
]
FEW = [
    Setting("published", 20, 3),
    Setting("published", 10, 3),
    Setting("skewed", 10, 3),
    Setting("heavy", 10, 3),
    Setting("normal", 10, 3),
    Setting("published", 4, 3),
    Setting("normal", 4, 3),
]
TEN = Setting("published", 10, 3)
SEEDS_ALONE = [
    Setting("published", 27, seeds, shift) for seeds in (2, 3, 5, 10) for shift in (0.003, 0.01)
]


def read_published_effects() -> np.ndarray:
    """Returns the differences in error of FT-d and Indep on the published tasks, with mean 0."""
    differences = np.array(
        [errors["ft_dynamic"] - errors["indep"] for errors in published.read_errors().values()]
    )
    return differences - differences.mean()


def draw_lognormal(
    shape: tuple[int, ...], rng: np.random.Generator, sigma: float = 0.8
) -> np.ndarray:
    """Draws from a lognormal distribution, with mean 0 and standard deviation 1."""
    square = np.exp(sigma**2)
    return (rng.lognormal(0, sigma, shape) - np.sqrt(square)) / np.sqrt((square - 1) * square)


def draw(
    setting: Setting, effects: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, float]:
    """Returns errors of A and B, float[tasks, seeds], and the drawn tasks' mean effect."""
    shape = (setting.tasks, 1)
    effect = {
        "published": lambda: rng.choice(effects, shape),
        "skewed": lambda: -0.05 * draw_lognormal(shape, rng),
        "heavy": lambda: 0.05 * rng.standard_t(3, shape) / np.sqrt(3),
        "normal": lambda: 0.05 * rng.normal(size=shape),
        "none": lambda: np.zeros(shape),
    }[setting.effect]()
    scale = setting.noise * rng.lognormal(-0.18, 0.6, shape)
    runs = (setting.tasks, setting.seeds)
    base = rng.beta(1, 2, shape)
    a, b = (
        base + scale * rng.normal(size=runs) + setting.shift * rng.normal(size=setting.seeds)
        for _ in range(2)
    )
    return a + effect, b, float(effect.mean())


Method = Callable[[np.ndarray, np.ndarray, int], tuple[float, float]]


def bound_by_tasks(a: np.ndarray, b: np.ndarray, key: int) -> tuple[float, float]:
    """Returns the interval that the project reports over tasks."""
    interval = bound_over_tasks(a, b, key)
    return interval.low, interval.high


def bound_by_seeds(a: np.ndarray, b: np.ndarray, key: int) -> tuple[float, float]:
    """Returns the interval that the project reports over seeds; nothing is drawn for it."""
    interval = bound_over_seeds(a, b)
    return interval.low, interval.high


OVER_TASKS: dict[str, Method] = {"`bound_over_tasks`": bound_by_tasks}
OVER_SEEDS: dict[str, Method] = {"Welch's t (`bound_over_seeds`)": bound_by_seeds}


def simulate(setting: Setting, args):
    """Yields each simulation's errors of A and B, the drawn tasks' mean effect, and a key."""
    effects = read_published_effects()
    place = [
        zlib.crc32(setting.effect.encode()),
        setting.tasks,
        setting.seeds,
        round(1000 * setting.shift),
    ]
    rng = np.random.default_rng([args.key, *place])
    for simulation in range(args.simulations):
        yield *draw(setting, effects, rng), simulation % KEYS


def measure_coverage(setting: Setting, methods: dict[str, Method], args, fixed: bool) -> list[str]:
    """Returns the share of simulations whose interval holds the truth.

    The truth is 0, or the drawn tasks' mean effect where `fixed`.
    """
    covered: Counter[str] = Counter()
    widths: Counter[str] = Counter()
    for a, b, mean, key in simulate(setting, args):
        for name, method in methods.items():
            low, high = np.clip(method(a, b, key), -1, 1)
            covered[name] += bool(low <= (mean if fixed else 0.0) <= high)
            widths[name] += high - low
    n = args.simulations
    return [f"{100 * covered[name] / n:.1f} ({100 * widths[name] / n:.1f})" for name in methods]


def print_table(
    title: str, settings: list[Setting], methods: dict[str, Method], args, fixed: bool = False
) -> None:
    """Prints how often the intervals of each method cover the truth in each setting."""
    print(f"\n{title}\n")
    engine.print_table(
        " | ".join(["effect, tasks × seeds, shift in points", *(f"{name}:" for name in methods)]),
        ([each.title, *measure_coverage(each, methods, args, fixed)] for each in settings),
    )


def print_missed(args) -> None:
    """Prints statistics of the samples of ten tasks whose interval misses, and of all samples."""
    samples = []
    for a, b, _, key in simulate(TEN, args):
        low, high = bound_by_tasks(a, b, key)
        differences = a.mean(axis=1) - b.mean(axis=1)
        spread = 100 * differences.std(ddof=1)
        samples.append((not low <= 0 <= high, spread, stats.skew(differences)))
    statistics = np.array(samples)
    missed = statistics[:, 0] > 0
    effects = read_published_effects()
    large = 100 * (effects < -0.15).mean()
    without_large = 100 * (1 - large / 100) ** 10
    print(
        f"\n{TEN.title}: {large:.1f}% of the published effects are gains of over 15 points beyond"
        " the mean one; ten tasks"
    )
    print(
        f"hold none of them in {without_large:.0f}% of samples. Median over the samples that the"
        " interval misses, and over all:"
    )
    for name, column in (
        ("standard deviation of the differences, points", 1),
        ("their skewness", 2),
    ):
        values = [np.median(statistics[rows, column]) for rows in (missed, slice(None))]
        print(f"{name} {values[0]:.1f}, {values[1]:.1f}", flush=True)


TABLES = {
    "main": lambda args: print_table("Main settings.", MAIN, OVER_TASKS, args),
    "hard": lambda args: print_table("Harder settings.", HARD, OVER_TASKS, args),
    "few": lambda args: print_table("Few tasks.", FEW, OVER_TASKS, args),
    "missed": print_missed,
    "seeds": lambda args: print_table(
        "These very tasks, seeds alone.", SEEDS_ALONE, OVER_SEEDS, args, fixed=True
    ),
}


def main(simulations: int = 1000, key: int = 0, tables: Sequence[str] = tuple(TABLES)) -> None:
    """Simulates, and prints the tables; decision 0026 was made with other keys than 0."""
    print(
        f"{describe()}; {simulations} simulations per row; in brackets the mean width in points,"
        " ends cut at ±100."
    )
    for name in tables:
        TABLES[name](SimpleNamespace(simulations=simulations, key=key))
    print(f"\n{time.process_time() / 60:.1f} CPU minutes.")


if __name__ == "__main__":
    engine.start(main, keep_programs=False)
