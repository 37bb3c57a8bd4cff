"""How often 95% intervals of the difference between two methods cover the truth, as markdown tables.

    python -m benchmarks.bootstrap_coverage --simulations=1000

Each simulation draws a stream of tasks and the runs of two methods. The error of method A on task t in the run with seed s is
base_t + effect_t + noise_ts + shift_s, of method B the same without effect, with noise and shift of its own.

  effect  what A gains or loses on a task, with mean 0 over all tasks there are. "published": drawn from FT-d - Indep on the
          104 tasks of NEVIS'22, Appendix N (skewed: a few tasks gain much); "skewed" (log-normal), "heavy" (Student's t with 3
          degrees of freedom) and "normal", each with standard deviation 5 points; "none": the two methods are equal.
  noise   of a run on one task: standard deviation 1.6 points, more on some tasks (log-normal, sigma 0.6).
  shift   of a whole run, shared by its tasks: standard deviation 0, 0.3 or 1 point. 1.6 points of noise over 27 tasks alone
          give a mean error with standard deviation 0.3 points, as published for Indep over 3 seeds; a shift comes on top.
"""

import argparse
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from benchmarks.machine import describe
from nevis_stream.analysis.bootstrap import over_seeds, over_tasks
from nevis_stream.catalogue import published

TAILS = np.array([0.025, 0.975])
REPLICATES = 2000


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
    Setting("published", 10, 3),
    Setting("skewed", 10, 3),
    Setting("heavy", 10, 3),
    Setting("normal", 10, 3),
    Setting("published", 4, 3),
    Setting("normal", 4, 3),
]
SEEDS_ALONE = [Setting("published", 27, seeds, shift) for seeds in (2, 3, 5, 10) for shift in (0.003, 0.01)]


def published_effects() -> np.ndarray:
    found = np.array([of_task["ft_dynamic"] - of_task["indep"] for of_task in published.errors().values()])
    return found - found.mean()


def standard_lognormal(shape: tuple[int, ...], rng: np.random.Generator, sigma: float = 0.8) -> np.ndarray:
    square = np.exp(sigma**2)
    return (rng.lognormal(0, sigma, shape) - np.sqrt(square)) / np.sqrt((square - 1) * square)


def draw(setting: Setting, effects: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, float]:
    """Returns errors of A and B, float[tasks, seeds], and the mean effect of the tasks that were drawn."""
    shape = (setting.tasks, 1)
    effect = {
        "published": lambda: rng.choice(effects, shape),
        "skewed": lambda: -0.05 * standard_lognormal(shape, rng),
        "heavy": lambda: 0.05 * rng.standard_t(3, shape) / np.sqrt(3),
        "normal": lambda: 0.05 * rng.normal(size=shape),
        "none": lambda: np.zeros(shape),
    }[setting.effect]()
    scale = setting.noise * rng.lognormal(-0.18, 0.6, shape)
    runs = (setting.tasks, setting.seeds)
    base = rng.beta(1, 2, shape)
    a, b = (base + scale * rng.normal(size=runs) + setting.shift * rng.normal(size=setting.seeds) for _ in range(2))
    return a + effect, b, float(effect.mean())


def resampled(a: np.ndarray, b: np.ndarray, rng: np.random.Generator, runs: bool) -> tuple[np.ndarray, np.ndarray]:
    """Returns the replicates' means and their standard errors over tasks; seeds are drawn too where `runs`."""
    tasks = len(a)
    counts = rng.multinomial(tasks, np.full(tasks, 1 / tasks), size=REPLICATES)
    parts = [m.mean(axis=1)[None] for m in (a, b)]
    if runs:
        seeds = a.shape[1]
        parts = [rng.multinomial(seeds, np.full(seeds, 1 / seeds), size=REPLICATES) / seeds @ m.T for m in (a, b)]
    differences = parts[0] - parts[1]
    means = (counts * differences).sum(axis=1) / tasks
    squares = (counts * (differences - means[:, None]) ** 2).sum(axis=1)
    return means, np.sqrt(squares / (tasks - 1) / tasks)


def percentile(a, b, rng, runs=True):
    return np.quantile(resampled(a, b, rng, runs)[0], TAILS)


def percentile_of_tasks(a, b, rng):
    return percentile(a, b, rng, runs=False)


def bias_corrected(a, b, rng):
    """BCa: percentiles moved for bias and for skewness, the latter by the jackknife over tasks."""
    differences = a.mean(axis=1) - b.mean(axis=1)
    means, _ = resampled(a, b, rng, True)
    bias = stats.norm.ppf(np.clip((means < differences.mean()).mean(), 1e-4, 1 - 1e-4))
    influence = differences - differences.mean()
    acceleration = (influence**3).sum() / (6 * (influence**2).sum() ** 1.5)
    normal = bias + stats.norm.ppf(TAILS)
    return np.quantile(means, stats.norm.cdf(bias + normal / (1 - acceleration * normal)))


def student(a, b, rng):
    """Student's t over the tasks' differences of seed means."""
    differences = a.mean(axis=1) - b.mean(axis=1)
    error = differences.std(ddof=1) / np.sqrt(len(a))
    return differences.mean() + stats.t.ppf(TAILS, len(a) - 1) * error


def student_two_way(a, b, rng):
    """t with the variance of tasks and runs crossed (tasks + runs - what both count), Satterthwaite's degrees of freedom."""
    tasks, seeds = a.shape
    if seeds == 1:
        return student(a, b, rng)
    differences = a.mean(axis=1) - b.mean(axis=1)
    of_tasks = differences.var(ddof=1) / tasks
    of_runs = [m.mean(axis=0).var(ddof=1) / seeds for m in (a, b)]
    rest = [m - m.mean(axis=1, keepdims=True) - m.mean(axis=0) + m.mean() for m in (a, b)]
    twice = sum((r**2).sum() for r in rest) / (tasks - 1) / (seeds - 1) / tasks / seeds
    variance = max(of_tasks, sum(of_runs), of_tasks + sum(of_runs) - twice)
    freedom = (of_tasks + sum(of_runs)) ** 2 / (of_tasks**2 / (tasks - 1) + sum(r**2 for r in of_runs) / (seeds - 1))
    return differences.mean() + stats.t.ppf(TAILS, freedom) * np.sqrt(variance)


def symmetric(a, b, rng):
    """Studentised, by the absolute value of the pivot: as far to the left as to the right."""
    differences = a.mean(axis=1) - b.mean(axis=1)
    means, errors = resampled(a, b, rng, True)
    with np.errstate(divide="ignore", invalid="ignore"):
        pivots = np.nan_to_num(np.abs((means - differences.mean()) / errors), nan=0.0, posinf=np.inf)
    half = np.quantile(pivots, 0.95, method="inverted_cdf") * differences.std(ddof=1) / np.sqrt(len(a))
    return differences.mean() + half * np.array([-1, 1])


def ours(a, b, rng):
    found = over_tasks(a, b, key=int(rng.integers(64)))
    return found.low, found.high


def seeds_percentile(a, b, rng):
    """Percentile over drawn runs alone: what three seeds cannot carry."""
    seeds = a.shape[1]
    drawn = [m.mean(axis=0)[rng.integers(seeds, size=(REPLICATES, seeds))].mean(axis=1) for m in (a, b)]
    return np.quantile(drawn[0] - drawn[1], TAILS)


def seeds_welch(a, b, rng):
    found = over_seeds(a, b)
    return found.low, found.high


OVER_TASKS = {
    "percentile, tasks": percentile_of_tasks,
    "percentile, tasks and runs": percentile,
    "BCa, tasks and runs": bias_corrected,
    "t, tasks": student,
    "t, tasks and runs": student_two_way,
    "studentised, symmetric": symmetric,
    "**studentised (`over_tasks`)**": ours,
}
OVER_SEEDS = {"percentile of runs": seeds_percentile, "**Welch's t (`over_seeds`)**": seeds_welch}
Method = Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray]


def coverage(setting: Setting, methods: dict[str, Method], args, effects: np.ndarray, fixed: bool) -> dict[str, str]:
    """Returns the share of simulations whose interval holds the truth: 0, or the drawn tasks' mean effect where `fixed`."""
    rng = np.random.default_rng([args.key, setting.tasks, setting.seeds, len(setting.effect), int(1000 * setting.shift)])
    covered: Counter[str] = Counter()
    widths: Counter[str] = Counter()
    for _ in range(args.simulations):
        a, b, mean = draw(setting, effects, rng)
        truth = mean if fixed else 0.0
        for name, method in methods.items():
            low, high = method(a, b, rng)
            covered[name] += bool(low <= truth <= high)
            widths[name] += high - low
    n = args.simulations
    return {name: f"{100 * covered[name] / n:.1f} ({100 * widths[name] / n:.1f})" for name in methods}


def table(settings: list[Setting], methods: dict[str, Method], args, effects: np.ndarray, fixed: bool = False) -> None:
    print("| effect, tasks × seeds, shift in points |" + "".join(f" {name} |" for name in methods))
    print("|---|" + "---:|" * len(methods))
    for setting in settings:
        cells = coverage(setting, methods, args, effects, fixed)
        print(f"| {setting.title} |" + "".join(f" {cell} |" for cell in cells.values()), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulations", type=int, default=1000)
    parser.add_argument("--key", type=int, default=0)
    args = parser.parse_args()
    effects = published_effects()
    print(f"{describe()}; {args.simulations} simulations a row; in brackets the mean width in points.\n")
    print("Main settings.\n")
    table(MAIN, OVER_TASKS, args, effects)
    print("\nHarder settings.\n")
    table(HARD, OVER_TASKS, args, effects)
    print("\nThese very tasks, seeds alone.\n")
    table(SEEDS_ALONE, OVER_SEEDS, args, effects, fixed=True)


if __name__ == "__main__":
    main()
