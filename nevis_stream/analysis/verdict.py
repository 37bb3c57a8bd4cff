"""The result of a comparison in one sentence, and the two costs in another."""

import math

from scipy.special import stdtrit

from nevis_stream.analysis.bootstrap import LEVEL, Interval
from nevis_stream.analysis.differences import Comparison
from nevis_stream.cost.engineering import ratio

# below, effects as skewed as the published ones are covered too seldom (benchmarks/RESULTS.md)
FEW_TASKS = 20
_MOST_SEEDS = 100


def verdict(comparison: Comparison) -> str:
    """Returns one sentence: A is better, worse, or the data cannot decide, and for which tasks that
    holds.

    First: is the difference larger than the noise between seeds, on these tasks? Then: would it
    hold on other tasks like these? One seed can answer only the second question, and only if the
    tasks of a run share no noise.
    """
    names = comparison.a.label, comparison.b.label
    seeds, tasks = comparison.over_seeds, comparison.over_tasks
    size = f"{abs(100 * tasks.estimate):.2f} points on average over {count(tasks.tasks, 'task')}"
    if tasks.estimate == 0 and all(task.a == task.b for task in comparison.tasks):
        return (
            f"{names[0]} and {names[1]} have the same error on each of"
            f" {count(tasks.tasks, 'task')}."
        )
    better = (
        f"{names[0]} is {'better' if tasks.estimate < 0 else 'worse'} than {names[1]} by {size}"
    )
    if math.isnan(seeds.low) and min(seeds.seeds) > 1:
        return f"{better}; the seeds of each method agree exactly{_elsewhere(tasks)}."
    if math.isnan(seeds.low):
        return _by_one_seed(better, names, size, tasks)
    if not seeds.side:
        needed = seeds_needed(seeds)
        more = (
            f"about {needed} of each would" if needed else f"even {_MOST_SEEDS} of each would not"
        )
        return (
            f"{_seed_counts(seeds)} cannot tell {names[0]} from {names[1]}; {more}. They differ by"
            f" {size} (95% interval over seeds {span(seeds)})."
        )
    return (
        f"{better}, more than the noise between seeds explains (95% interval over seeds"
        f" {span(seeds)}){_elsewhere(tasks)}."
    )


def mark(comparison: Comparison) -> str:
    """Returns the verdict in a few words, for a table."""
    seeds, tasks = comparison.over_seeds, comparison.over_tasks
    word = "A better" if tasks.estimate < 0 else "A worse"
    if tasks.estimate == 0:
        return "equal"
    if not math.isnan(seeds.low) and not seeds.side:
        return "seeds cannot tell"
    if math.isnan(tasks.low):
        return f"{word} on these tasks" if min(seeds.seeds) > 1 else "too little data"
    single = min(seeds.seeds) < 2
    if tasks.side:
        return f"{word}, one seed" if single else word
    return "one seed cannot tell" if single else f"{word} on these tasks"


def seeds_needed(interval: Interval) -> int | None:
    """Returns about how many seeds of each method would show a difference of this size, if its
    estimate and the noise between seeds are right; None where even 100 would not.
    """
    fewest, freedom = min(interval.seeds), sum(interval.seeds) - 2
    error = (interval.high - interval.low) / 2 / _student(freedom)
    for seeds in range(fewest + 1, _MOST_SEEDS + 1):
        if _student(2 * seeds - 2) * error * math.sqrt(fewest / seeds) < abs(interval.estimate):
            return seeds
    return None


def _student(freedom: int) -> float:
    return float(stdtrit(freedom, (1 + LEVEL) / 2))


def _seed_counts(interval: Interval) -> str:
    a, b = interval.seeds
    return f"{a} seeds of each" if a == b else f"{a} and {b} seeds"


def cautions(comparison: Comparison) -> list[str]:
    """Returns sentences on why the interval over tasks may be too narrow; empty without such an
    interval.
    """
    tasks = comparison.over_tasks
    sentences = []
    if math.isnan(tasks.low):
        return sentences
    if min(tasks.seeds) < 2:
        sentences.append(
            "One seed: a single run does not show noise that all its tasks share. If there is such"
            " noise, the interval over tasks is too narrow; two or more seeds of each method would"
            " show it."
        )
    if tasks.tasks < FEW_TASKS:
        sentences.append(
            f"Fewer than {FEW_TASKS} tasks: if only a few tasks in many gain most, a small sample"
            " may contain none of them, and the interval over tasks is then too narrow."
        )
    return sentences


def cost_statement(comparison: Comparison) -> str:
    """Returns a sentence that compares the training FLOPs of A and B."""
    cost, names = comparison.paper, (comparison.a.label, comparison.b.label)
    for name, flops in zip(names, (cost.a, cost.b), strict=True):
        if math.isnan(flops):
            return f"The cost of {name} is unknown, so the comparison may not be at equal FLOPs."
    if cost.equal:
        return "The comparison is at equal FLOPs."
    if math.isnan(cost.ratio):
        return f"The comparison is not at equal FLOPs: {names[1]} used none for training."
    return (
        f"The comparison is not at equal FLOPs: {names[0]} used {ratio(cost.ratio)} times the"
        f" training FLOPs of {names[1]}."
    )


def span(interval: Interval) -> str:
    """Returns an interval in points, with signs: "-5.1 to -1.4"; without one, the reason."""
    if math.isnan(interval.low):
        return f"none: {interval.reason}"
    return f"{100 * interval.low:+.2f} to {100 * interval.high:+.2f}".replace("-", "−")


def count(n: int, what: str) -> str:
    """Returns "1 task" or "5 tasks"."""
    return f"{n} {what}{'s' * (n != 1)}"


def _elsewhere(tasks: Interval) -> str:
    if math.isnan(tasks.low):
        return f"; whether this holds on other tasks is unknown ({tasks.reason})"
    if tasks.side:
        return (
            f", and probably so on other tasks like these (95% interval over tasks {span(tasks)})"
        )
    return (
        f"; on other tasks like these it may be different (95% interval over tasks {span(tasks)})"
    )


def _by_one_seed(better: str, names: tuple[str, str], size: str, tasks: Interval) -> str:
    if math.isnan(tasks.low):
        return (
            f"{names[0]} and {names[1]} differ by {size}. One seed on {count(tasks.tasks, 'task')}"
            " cannot show whether that is chance."
        )
    if tasks.side:
        return f"{better}, judging from one seed (95% interval over tasks {span(tasks)})."
    return (
        f"One seed cannot tell {names[0]} from {names[1]}: they differ by {size} (95% interval over"
        f" tasks {span(tasks)})."
    )
