"""Which metric of a task is read, where a task has several."""

from collections.abc import Iterator, Sequence

from nevis_stream.errors import BadInput, unknown
from nevis_stream.evaluation_cache.directions import Ranges, is_unbounded
from nevis_stream.evaluation_cache.importers.record import FAILED, Log, name_first
from nevis_stream.evaluation_cache.names import join_words
from nevis_stream.evaluation_cache.texts import LeftOut


def choose_metrics(
    logs: Sequence[Log], words: Sequence[str], ranges: Ranges, remarks: list[str]
) -> tuple[dict[str, str], list[LeftOut]]:
    """Returns the metric that is read of each task, and the tasks that are left out.

    Args:
      logs: all of them.
      words: of --metrics: names; or parts of them, the metric or its filter. Of each task the first
        that it has is read, else the metric that most models have, of equal ones the first whose
        values lie in its range.
      ranges: of the values.
      remarks: lines for people; gains what else could be read.

    Raises:
      BadInput: a word names no metric, or several of one task; no task has a metric with numbers;
        or some values of a metric are grades that are no numbers.
    """
    by_task: dict[str, list[Log]] = {}
    for log in logs:
        by_task.setdefault(log.task, []).append(log)
    known = sorted({name for log in logs for name in log.values})
    wanted = join_words(words, known)
    for word in wanted:
        if not _matches(word, known):
            raise BadInput(f"--metrics={word}: {unknown('metric', word, known)}")
    chosen: dict[str, str] = {}
    without: list[str] = []
    for task, each in by_task.items():
        if any(log.values for log in each):
            chosen[task] = _choose(task, each, wanted, ranges, remarks)
        else:
            without.append(f"task {task!r} {_why_not(each)}")
    if not chosen:
        raise BadInput(f"{logs[0].path}: {without[0]}")
    reason = "tasks without a metric that has a number for each sample"
    return chosen, [LeftOut(reason, len(without), name_first(without))] if without else []


def _matches(word: str, names: Sequence[str]) -> list[str]:
    """Returns the names that a word stands for: itself, or those of which it is a part."""
    return [word] if word in names else [name for name in names if word in name.split(",")]


def _why_not(logs: Sequence[Log]) -> str:
    skipped = sorted({name for log in logs for name in log.skipped})
    errors = [what for log in logs for kind, what in log.remarks if kind == FAILED]
    if errors and not skipped:
        return f"has no sample with a value; {FAILED}: {errors[0]}"
    return (
        "has no metric with a number for each sample"
        f" ({', '.join(skipped) or 'no metric at all'}).{_grade_hint(logs, skipped)}"
    )


def _choose(
    task: str, logs: Sequence[Log], wanted: Sequence[str], ranges: Ranges, remarks: list[str]
) -> str:
    names = list(dict.fromkeys(name for log in logs for name in log.values))
    skipped = sorted({name for log in logs for name in log.skipped} - set(names))
    chosen = ""
    for word in wanted:
        if matches := _matches(word, names):
            if len(matches) > 1:
                raise BadInput(
                    f"--metrics={word}: task {task!r} has {' and '.join(matches)}; name one."
                )
            chosen = matches[0]
            break
    if not chosen:
        counts = {name: sum(name in log.values for log in logs) for name in names}
        fits = {name: _fits(name, logs, ranges) for name in names}
        chosen = max(names, key=lambda name: (counts[name], fits[name]))  # of equal ones the first
        if chosen != (first := max(names, key=lambda name: counts[name])):
            remarks.append(
                f"{task}: {chosen} is read before {first}, whose values do not lie in a range"
            )
    if others := [name for name in names if name != chosen]:
        texts = ", ".join(others)
        remarks.append(f"{task}: {chosen} is read; --metrics may name others: {texts}")
    if skipped:
        remarks.append(f"{task}: without a number for each sample: {', '.join(skipped)}")
    if hint := _grade_hint(logs, [chosen]):
        raise BadInput(f"{logs[0].path.parent}: task {task!r}, {chosen}:{hint}")
    return chosen


def _fits(name: str, logs: Sequence[Log], ranges: Ranges) -> bool:
    """Whether a metric has a range, and all its values lie in it."""
    stated = next((log.ranges[name] for log in logs if name in log.ranges), None)
    ends = stated or ranges.find(logs[0].task, name)
    if isinstance(ends, str) or (ends is None and is_unbounded(name)):
        return False
    low, high = ends or (0.0, 1.0)
    return all(
        low <= value <= high for log in logs for value, _ in log.values.get(name, {}).values()
    )


def _grade_hint(logs: Sequence[Log], metrics: Sequence[str]) -> str:
    """Returns what to do about values that are texts; "" if there are none."""
    grades: dict[str, str] = {}
    for log in logs:
        for skipped in (each for name in metrics for each in log.skipped.get(name, {}).values()):
            if isinstance(skipped.value, str):
                place = f"{log.path.name}, {skipped.place}, of {log.model}"
                grades.setdefault(skipped.value, place)
    if not grades:
        return ""
    texts = ",".join(f"{grade}=…" for grade in sorted(grades))
    first, place = next(iter(grades.items()))
    return (
        f" The grade {first!r} ({place}) is not a number; say what grades count: --grades={texts}"
    )


def list_models_without(
    task: str, metric: str, logs: Sequence[tuple[str, Log]]
) -> Iterator[tuple[str, str]]:
    """Yields remarks on models without the metric, or with values that are no numbers."""
    for row, log in logs:
        if not log.values.get(metric):
            others = ", ".join(log.values) or "no other with numbers"
            yield "left unknown", f"{row} has no {metric} on {task} (it has {others})"
        elif skipped := log.skipped.get(metric):
            place = f"{log.path.name}, {next(iter(skipped.values())).place}"
            text = f"{len(skipped):,} of {row} on {task} ({metric}; for example {place})"
            yield "values that are not numbers, left unknown", text


def keep_tasks(logs: Sequence[Log], words: Sequence[str]) -> tuple[list[Log], list[LeftOut]]:
    """Returns the logs of the tasks of --tasks, or all, and what is left out.

    Raises:
      BadInput: a word is no task.
    """
    if not words:
        return list(logs), []
    tasks = sorted({log.task for log in logs})
    wanted = join_words(words, tasks)
    for word in wanted:
        if word not in tasks:
            raise BadInput(f"--tasks={word}: {unknown('task', word, tasks)}")
    others = [task for task in tasks if task not in wanted]
    kept = [log for log in logs if log.task in wanted]
    reason = "tasks that --tasks does not name"
    return kept, [LeftOut(reason, len(others), name_first(others))] if others else []
