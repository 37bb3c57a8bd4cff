"""The forms of intervals that `bootstrap_coverage` compares.

Each takes errors of A and B and a key, and returns two ends.
"""

import functools

import numpy as np
from scipy import stats
from scipy.special import ndtr, ndtri, stdtrit

from nevis_stream.analysis.bootstrap import over_seeds, over_tasks

TAILS = np.array([0.025, 0.975])
REPLICATES = 2000


def percentile(a, b, key):
    """Percentiles of means of resampled tasks and runs."""
    return np.quantile(_resample(a, b, key, True)[0], TAILS)


def percentile_of_tasks(a, b, key):
    """Percentiles of means of resampled tasks."""
    return np.quantile(_resample(a, b, key, False)[0], TAILS)


def correct_bias(a, b, key):
    """BCa: percentiles moved for bias and for skewness, the latter by the jackknife over tasks."""
    mean, deviations, _ = _parts(a, b)
    means, _ = _resample(a, b, key, True)
    bias = ndtri(np.clip((means < mean).mean(), 1e-4, 1 - 1e-4))
    acceleration = (deviations**3).sum() / (6 * (deviations**2).sum() ** 1.5)
    normal = bias + ndtri(TAILS)
    return np.quantile(means, ndtr(bias + normal / (1 - acceleration * normal)))


def student(a, b, key):
    """Student's t over the tasks' differences of seed means."""
    mean, _, error = _parts(a, b)
    return mean + stdtrit(len(a) - 1, TAILS) * error


def student_two_way(a, b, key):
    """t with the variance of tasks and runs crossed (tasks + runs - what both count).

    Satterthwaite's degrees of freedom.
    """
    mean, _, error = _parts(a, b)
    runs, twice, freedom = _runs(a, b)
    variance = max(error**2, runs, error**2 + runs - twice)
    return mean + stdtrit(_joint_freedom(error**2, runs, len(a), freedom), TAILS) * np.sqrt(
        variance
    )


def symmetric(a, b, key):
    """Studentised by the absolute value of the pivot, so symmetric."""
    mean, _, error = _parts(a, b)
    half = np.quantile(np.abs(_pivots(a, b, key)), 0.95, method="inverted_cdf") * error
    return mean + half * np.array([-1, 1])


def runs_drawn(a, b, key):
    """Studentised by the error over tasks, tasks and runs drawn, deviations of runs widened.

    This is `over_tasks` of decision 0017.
    """
    mean, _, error = _parts(a, b)
    return mean - np.quantile(_pivots(a, b, key), TAILS[::-1], method="inverted_cdf") * error


def ours(a, b, key):
    """What the project reports."""
    interval = over_tasks(a, b, key)
    return interval.low, interval.high


def ours_without_runs(a, b, key):
    """The same of each task's mean over runs."""
    return ours(a.mean(axis=1, keepdims=True), b.mean(axis=1, keepdims=True), key)


def join(a, b, key):
    """The wider on each side of tasks alone and runs alone."""
    low, high = ours_without_runs(a, b, key)
    others = seeds_welch(a, b, key)
    return np.fmin(low, others[0]), np.fmax(high, others[1])


def satterthwaite(a, b, key):
    """Tasks alone, scaled by the error of tasks and runs and by its t over that of the tasks."""
    mean, _, error = _parts(a, b)
    runs, twice, freedom = _runs(a, b)
    variance = error**2 + max(0.0, runs - twice)
    students = stdtrit([_joint_freedom(error**2, runs, len(a), freedom), len(a) - 1], 0.975)
    factor = max(1.0, students[0] / students[1] * np.sqrt(variance) / error)
    return mean + (np.array(ours_without_runs(a, b, key)) - mean) * factor


def own_variances(a, b, key):
    """`over_tasks` with each draw's own variance, not averaged with that of all tasks."""
    return _with_runs(a, b, *_of_tasks(a, b, key, averaged=False, floor=True))


def without_student(a, b, key):
    """`over_tasks` without Student's t as the least width."""
    return _with_runs(a, b, *_of_tasks(a, b, key, averaged=True, floor=False))


def edgeworth(a, b, key):
    """Student's t with its ends moved for skewness (Johnson 1978, and the quadratic term)."""
    mean, deviations, error = _parts(a, b)
    t = stdtrit(len(a) - 1, TAILS)
    return (
        mean + t * error + stats.skew(deviations) * error * (1 + 2 * t**2) / (6 * np.sqrt(len(a)))
    )


def hall(a, b, key):
    """Student's t of Hall's cubic transform, which takes the skewness out (Hall 1992)."""
    mean, deviations, error = _parts(a, b)
    tasks, skew = len(a), stats.skew(deviations, bias=False)
    t = stdtrit(tasks - 1, TAILS) / np.sqrt(tasks)
    inverse = 3 / skew * (np.cbrt(1 + skew * (t - skew / 6 / tasks)) - 1)
    return _with_runs(
        a, b, inverse[1] * error * np.sqrt(tasks), -inverse[0] * error * np.sqrt(tasks)
    )


def double(a, b, key, outer=200):
    """Bootstrap-t whose level is set by a second bootstrap within each draw."""
    mean, deviations, error = _parts(a, b)
    tasks = len(a)
    again = np.random.default_rng([key, 3]).choice(deviations, (outer, tasks))
    again_means = again.mean(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        pivots = np.nan_to_num(again_means[:, 0] / (again.std(axis=1, ddof=1) / np.sqrt(tasks)))
    within = (_pivots_of((again - again_means).T, _draw(tasks, key)[:400]) <= pivots).mean(axis=0)
    tails = np.quantile(
        _pivots_of(deviations[:, None], _draw(tasks, key))[:, 0], np.quantile(within, TAILS[::-1])
    )
    return _with_runs(a, b, tails[0] * error, -tails[1] * error)


def seeds_percentile(a, b, key):
    """Percentile over drawn runs alone, which needs more than three seeds."""
    rng = np.random.default_rng(key)
    seeds = a.shape[1]
    drawn = [
        m.mean(axis=0)[rng.integers(seeds, size=(REPLICATES, seeds))].mean(axis=1) for m in (a, b)
    ]
    return np.quantile(drawn[0] - drawn[1], TAILS)


def seeds_welch(a, b, key):
    """Welch's t over seeds, of means over tasks."""
    interval = over_seeds(a, b)
    return interval.low, interval.high


OVER_TASKS = {
    "percentile, tasks": percentile_of_tasks,
    "percentile, tasks and runs": percentile,
    "BCa, tasks and runs": correct_bias,
    "t, tasks": student,
    "t, tasks and runs": student_two_way,
    "studentised, symmetric": symmetric,
    "studentised, runs drawn": runs_drawn,
    "**`over_tasks`**": ours,
}
TRIED = {
    "tasks alone": ours_without_runs,
    "joined with Welch's t": join,
    "Satterthwaite's scale": satterthwaite,
    "draws' own variances": own_variances,
    "no least width": without_student,
    "Edgeworth t": edgeworth,
    "Hall's transform": hall,
    "double bootstrap": double,
    "**`over_tasks`**": ours,
}
OVER_SEEDS = {"percentile of runs": seeds_percentile, "**Welch's t (`over_seeds`)**": seeds_welch}


@functools.cache
def _draw(n, key):
    return (
        np.random.default_rng([key, n])
        .multinomial(n, np.full(n, 1 / n), size=REPLICATES)
        .astype(float)
    )


def _parts(a, b):
    """Mean, deviations from it, and standard error of the tasks' differences."""
    differences = a.mean(axis=1) - b.mean(axis=1)
    return (
        differences.mean(),
        differences - differences.mean(),
        differences.std(ddof=1) / np.sqrt(len(a)),
    )


def _runs(a, b):
    """The variance of the difference by the runs' means, and degrees of freedom.

    Also the part that is noise of single tasks.
    """
    tasks, seeds = a.shape
    if seeds == 1:
        return 0.0, 0.0, 1.0
    of_runs = [m.mean(axis=0).var(ddof=1) / seeds for m in (a, b)]
    rest = [m - m.mean(axis=1, keepdims=True) - m.mean(axis=0) + m.mean() for m in (a, b)]
    twice = sum((r**2).sum() for r in rest) / (tasks - 1) / (seeds - 1) / tasks / seeds
    return sum(of_runs), twice, sum(of_runs) ** 2 / sum(r**2 for r in of_runs) * (seeds - 1)


def _joint_freedom(of_tasks, of_runs, tasks, freedom):
    return (of_tasks + of_runs) ** 2 / (of_tasks**2 / (tasks - 1) + of_runs**2 / freedom)


def _with_runs(a, b, below, above):
    """The two ends, half-widths over tasks and of what runs share added in quadrature."""
    runs, twice, freedom = _runs(a, b)
    shared = stdtrit(freedom, 0.975) * np.sqrt(max(0.0, runs - twice))
    mean = _parts(a, b)[0]
    return mean - np.hypot(below, shared), mean + np.hypot(above, shared)


def _of_tasks(a, b, key, averaged, floor):
    _, deviations, error = _parts(a, b)
    pivots = _pivots_of(deviations[:, None], _draw(len(a), key), averaged)[:, 0]
    tails = np.quantile(pivots, TAILS[::-1], method="inverted_cdf") * [1, -1]
    return np.maximum(tails, stdtrit(len(a) - 1, 0.975) if floor else -np.inf) * error


def _pivots_of(deviations, drawn, averaged=False):
    """float[draws, samples] of float[tasks, samples], whose means are 0."""
    tasks = len(deviations)
    means = drawn @ deviations / tasks
    squares = np.maximum(drawn @ deviations**2 - tasks * means**2, 0)
    squares = (
        squares + deviations.var(axis=0, ddof=1) if averaged else squares * tasks / (tasks - 1)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(tasks * means / np.sqrt(squares))


def _resample(a, b, key, runs):
    """The means of draws of tasks (and of runs), and the drawn tasks' differences."""
    parts = [m.mean(axis=1)[None] for m in (a, b)]
    if runs:
        parts = [
            _draw(m.shape[1], key + 100 * (i + 1)) / m.shape[1] @ m.T for i, m in enumerate((a, b))
        ]
    differences = parts[0] - parts[1]
    return (_draw(len(a), key) * differences).sum(axis=1) / len(a), differences


def _pivots(a, b, key):
    """Studentised draws of tasks and runs.

    The runs' deviations are widened by what few of them show too little.
    """
    seeds = a.shape[1]
    if seeds > 1:
        means = [m.mean(axis=1, keepdims=True) for m in (a, b)]
        a, b = (
            mean + (m - mean) * np.sqrt(seeds / (seeds - 1))
            for m, mean in zip((a, b), means, strict=True)
        )
    means, differences = _resample(a, b, key, True)
    squares = (_draw(len(a), key) * (differences - means[:, None]) ** 2).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num((means - _parts(a, b)[0]) / np.sqrt(squares / (len(a) - 1) / len(a)))
