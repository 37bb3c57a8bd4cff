"""What a comparison says, in one plain sentence, and how the costs stand to each other."""

import math

from scipy.special import stdtrit

from nevis_stream.analysis.bootstrap import LEVEL, Interval
from nevis_stream.analysis.differences import Comparison, Cost

# below, effects as skewed as the published ones are covered too seldom (benchmarks/RESULTS.md)
FEW_TASKS = 20
_MOST_SEEDS = 100


def verdict(found: Comparison) -> str:
    """Returns one sentence: A is better, worse, or the two cannot be told apart, and how far that
    holds.

    The order of questions: is the difference beyond the noise between seeds, on these very tasks?
    Would it hold on other tasks like these? With one seed only the second can be asked, and only
    as far as no noise is shared by all tasks of a run.
    """
    names = found.a.label, found.b.label
    seeds, tasks = found.over_seeds, found.over_tasks
    size = f"{abs(100 * tasks.estimate):.2f} points on average over {count(tasks.tasks, 'task')}"
    if tasks.estimate == 0 and all(task.a == task.b for task in found.tasks):
        return (
            f"{names[0]} and {names[1]} have the same error on each of"
            f" {count(tasks.tasks, 'task')}."
        )
    better = (
        f"{names[0]} is {'better' if tasks.estimate < 0 else 'worse'} than {names[1]} by {size}"
    )
    if math.isnan(seeds.low) and min(seeds.seeds) > 1:
        return f"{better}, in every run alike (no noise between seeds){_elsewhere(tasks)}."
    if math.isnan(seeds.low):
        return _by_one_seed(better, names, size, tasks)
    if not seeds.side:
        needed = seeds_needed(seeds)
        more = f"about {needed} of each would" if needed else f"more than {_MOST_SEEDS} would"
        return (
            f"{_seed_counts(seeds)} cannot tell {names[0]} from {names[1]}, {more}: they differ by"
            f" {size} (95% interval over seeds {span(seeds)})."
        )
    return (
        f"{better}, beyond seed noise (95% interval over seeds {span(seeds)}){_elsewhere(tasks)}."
    )


def mark(found: Comparison) -> str:
    """Returns the verdict in a few words, for a table."""
    seeds, tasks = found.over_seeds, found.over_tasks
    word = "A better" if tasks.estimate < 0 else "A worse"
    if tasks.estimate == 0:
        return "equal"
    if not math.isnan(seeds.low) and not seeds.side:
        return "seeds cannot tell"
    if math.isnan(tasks.low):
        return f"{word} on these tasks" if min(seeds.seeds) > 1 else "too little data"
    one = ", one seed" if min(seeds.seeds) < 2 else ""
    if tasks.side:
        return f"{word}{one}"
    return "one seed cannot tell" if one else f"{word} on these tasks"


def seeds_needed(interval: Interval) -> int | None:
    """Returns about how many seeds of each method would show a difference of this size, if its
    estimate and the noise between seeds are as they seem; None where 100 would not.
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


def cautions(found: Comparison) -> list[str]:
    """Returns in sentences why the interval over tasks may be too narrow; none where there is no
    such interval.
    """
    tasks = found.over_tasks
    said = []
    if math.isnan(tasks.low):
        return said
    if min(tasks.seeds) < 2:
        said.append(
            "One seed: noise that all tasks of a run share cannot be seen in a single run. Where"
            " there is any, the interval over tasks is too narrow; two seeds of each method or more"
            " show it."
        )
    if tasks.tasks < FEW_TASKS:
        said.append(
            f"Fewer than {FEW_TASKS} tasks: where a few tasks of many gain most, so few tasks may"
            " hold none of them, and the interval over tasks is then too narrow."
        )
    return said


def cost_statement(cost: Cost) -> str:
    """Returns how the costs of A and B stand to each other, in a sentence."""
    if math.isnan(cost.a) or math.isnan(cost.b):
        return "The cost of one of them is not known, so nothing is said about equal FLOPs."
    if cost.equal:
        return "The comparison is at equal FLOPs."
    if math.isnan(cost.ratio):
        return "The comparison is NOT at equal FLOPs: B's cost is 0."
    return f"The comparison is NOT at equal FLOPs: A cost {cost.ratio:.3g} times what B cost."


def span(interval: Interval) -> str:
    """Returns an interval in points, with signs: "-5.1 to -1.4"; the reason where there is none."""
    if math.isnan(interval.low):
        return f"none: {interval.reason}"
    return f"{100 * interval.low:+.2f} to {100 * interval.high:+.2f}".replace("-", "−")


def count(n: int, what: str) -> str:
    """Returns "1 task" or "5 tasks"."""
    return f"{n} {what}{'s' * (n != 1)}"


def _elsewhere(tasks: Interval) -> str:
    if math.isnan(tasks.low):
        return f"; of other tasks nothing can be said ({tasks.reason})"
    if tasks.side:
        return f", and would be on other tasks like these ({span(tasks)})"
    return f"; on other tasks like these it may be otherwise ({span(tasks)})"


def _by_one_seed(better: str, names: tuple[str, str], size: str, tasks: Interval) -> str:
    if math.isnan(tasks.low):
        return (
            f"{names[0]} and {names[1]} differ by {size}: one seed and so few tasks cannot show"
            " whether that is chance."
        )
    if tasks.side:
        return f"{better}, as far as one seed can tell (95% interval over tasks {span(tasks)})."
    interval = f"95% interval over tasks {span(tasks)}, one seed"
    return f"{names[0]} and {names[1]} cannot be told apart: they differ by {size} ({interval})."
