"""The result of a comparison in words, and its costs."""

import math
from typing import TYPE_CHECKING

from scipy.special import stdtrit

from nevis_stream.analysis.bootstrap import LEVEL, Interval
from nevis_stream.cost.meter import format_times
from nevis_stream.errors import plural

if TYPE_CHECKING:  # a comparison shows itself in these words
    from nevis_stream.analysis.differences import Comparison

# with fewer, effects as skewed as the published ones are covered too seldom: docs/evidence/
# interval-coverage.md
FEW_TASKS = 20
_MOST_SEEDS = 100


def state_verdict(comparison: "Comparison") -> str:
    """Returns one or two sentences: whether A is better or worse than B or the data cannot tell,
    and whether that holds on these tasks only or on others too.

    The first question is whether the difference is larger than the variation between seeds, on
    these tasks; the second, whether it would hold on other tasks like these. One seed can answer
    only the second, and only if the tasks of a run share no noise.
    """
    a, b = comparison.a.label, comparison.b.label
    seeds, tasks = comparison.over_seeds, comparison.over_tasks
    if tasks.estimate == 0 and all(task.a == task.b for task in comparison.tasks):
        each = "the one task" if tasks.tasks == 1 else f"each of {tasks.tasks} tasks"
        return f"{a} and {b} have the same error on {each}."
    if tasks.estimate == 0:
        return (
            f"{a} and {b} have the same mean error over {plural(tasks.tasks, 'task')}; on single"
            " tasks they differ."
        )
    better, lower = ("better", "lower") if tasks.estimate < 0 else ("worse", "higher")
    size = f"{abs(100 * tasks.estimate):.2f} percentage points"
    average = f"on average over {plural(tasks.tasks, 'task')}"
    result = f"{a} is {better} than {b}: {average} its error is {size} {lower}"
    differ = f"Their errors differ by {size} {average}"
    if not math.isnan(seeds.low):
        if seeds.side:
            return (
                f"{result}, more than the variation between seeds explains (95% interval over seeds"
                f" {format_span(seeds)}). {_state_for_other_tasks(a, better, tasks)}"
            )
        needed = estimate_seeds_needed(seeds)
        more = f"even {_MOST_SEEDS} of each could not"
        if needed:
            more = f"about {needed} of each could, if the true difference is this large"
        return (
            f"{_name_seeds(seeds)} cannot tell which of {a} and {b} is better; {more}. {differ},"
            f" and the 95% interval over seeds, {format_span(seeds)}, contains zero."
        )
    if min(seeds.seeds) > 1:
        return f"{result}, and all seeds agree exactly. {_state_for_other_tasks(a, better, tasks)}"
    if math.isnan(tasks.low):
        return (
            f"The error of {a} is {size} {lower} than that of {b} {average}, but"
            f" {_name_single_seed(comparison)}"
            f" on {plural(tasks.tasks, 'task')} cannot show whether that is chance."
            f"{_ask_for_seeds(comparison)}"
        )
    if tasks.side:
        return (
            f"{result}, judging from {_name_single_seed(comparison)} and the variation between"
            f" tasks (95% interval over tasks {format_span(tasks)})."
        )
    single = _name_single_seed(comparison).replace("one", "One", 1)
    return (
        f"{single} cannot tell which of {a} and {b} is better. {differ},"
        f" and the 95% interval over tasks, {format_span(tasks)}, contains"
        f" zero.{_ask_for_seeds(comparison)}"
    )


def _name_single_seed(comparison: "Comparison") -> str:
    """Returns "one seed", with the method's name where only one method has a single seed."""
    counts = comparison.over_seeds.seeds
    if max(counts) == 1:
        return "one seed"
    group = comparison.a if counts[0] == 1 else comparison.b
    return f"one seed of {group.label}"


def _ask_for_seeds(comparison: "Comparison") -> str:
    """Returns a sentence on what a method with a single seed lacks, if the other has more."""
    counts = comparison.over_seeds.seeds
    if max(counts) == 1:
        return ""
    group = comparison.a if counts[0] == 1 else comparison.b
    return f" {group.label} needs two or more seeds; the other method has {max(counts)}."


def is_decided(comparison: "Comparison") -> bool:
    """Returns whether the interval over seeds, or without one that over tasks, excludes zero."""
    seeds, tasks = comparison.over_seeds, comparison.over_tasks
    return bool(tasks.side if math.isnan(seeds.low) else seeds.side)


def _state_for_other_tasks(label: str, better: str, tasks: Interval) -> str:
    if math.isnan(tasks.low):
        return f"Whether this holds on other tasks is unknown: {tasks.reason}."
    if tasks.side:
        return (
            f"{label} would probably be {better} on other tasks like these too (95% interval over"
            f" tasks {format_span(tasks)})."
        )
    return (
        "On other tasks like these the result may be the opposite: the 95% interval over tasks,"
        f" {format_span(tasks)}, contains zero."
    )


def abbreviate_verdict(comparison: "Comparison") -> str:
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


def estimate_seeds_needed(interval: Interval) -> int | None:
    """Returns about how many seeds of each method would show a difference of this size, if its
    estimate and the variation between seeds are right; None if even 100 would not.
    """
    a, b = interval.variances
    for seeds in range(min(interval.seeds) + 1, _MOST_SEEDS + 1):
        freedom = (seeds - 1) * (a + b) ** 2 / (a**2 + b**2)  # Welch's, with equal numbers of runs
        half = float(stdtrit(freedom, (1 + LEVEL) / 2)) * math.sqrt((a + b) / seeds)
        if half < abs(interval.estimate):
            return seeds
    return None


def _name_seeds(interval: Interval) -> str:
    a, b = interval.seeds
    return f"{a} seeds of each" if a == b else f"{a} and {b} seeds"


def list_cautions(comparison: "Comparison") -> list[str]:
    """Returns sentences on why the interval over tasks is the shorter one, or may be too narrow;
    empty without such an interval.
    """
    tasks, seeds, sentences = comparison.over_tasks, comparison.over_seeds, []
    if math.isnan(tasks.low):
        return []
    if tasks.high - tasks.low < seeds.high - seeds.low:
        sentences.append(
            "The interval over tasks and seeds is the shorter one, because it sees the noise in the"
            f" differences of {tasks.tasks} tasks, while the interval over seeds has only the means"
            f" of {seeds.seeds[0]} and {seeds.seeds[1]} runs."
        )
    if min(tasks.seeds) < 2:
        sentences.append(
            "With one seed, the interval over tasks may be too narrow: a single run does not show"
            " noise that raises or lowers the error of all its tasks together. Two or more seeds of"
            " each method would show it."
        )
    if tasks.tasks < FEW_TASKS:
        sentences.append(
            f"With fewer than {FEW_TASKS} tasks, the interval over tasks may be too narrow: where"
            " a few rare tasks gain most, a small sample may contain none of them."
        )
    return sentences


def state_costs(comparison: "Comparison") -> str:
    """Returns a sentence that compares the training FLOPs of A and B."""
    cost, names = comparison.paper, (comparison.a.label, comparison.b.label)
    for name, flops in zip(names, (cost.a, cost.b), strict=True):
        if math.isnan(flops):
            return f"The cost of {name} is unknown, so the comparison may not be at equal FLOPs."
    if cost.equal:
        return "The comparison is at equal FLOPs."
    for name, flops in zip(names, (cost.a, cost.b), strict=True):
        if flops == 0:
            return f"The comparison is not at equal FLOPs: {name} used no training FLOPs."
    return (
        f"The comparison is not at equal FLOPs: {names[0]} used {format_times(cost.ratio)}"
        f" training FLOPs of {names[1]}."
    )


def format_span(interval: Interval) -> str:
    """Returns an interval in percentage points, with signs: "−5.10 to −1.40"; without one, the
    reason.
    """
    if math.isnan(interval.low):
        return f"none: {interval.reason}"
    return f"{100 * interval.low:+.2f} to {100 * interval.high:+.2f}".replace("-", "−")
