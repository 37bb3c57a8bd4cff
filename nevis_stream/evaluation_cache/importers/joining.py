"""Joins logs to one table of values, models × samples: of several metrics of a task one is chosen,
and of several logs of one row and task a complete one counts before a truncated one, then the
latest.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nevis_stream.errors import BadInput, plural, unknown
from nevis_stream.evaluation_cache.facts import DIRECTION, HASH, METRIC, RANGE
from nevis_stream.evaluation_cache.identity import (
    TASKS,
    compare_settings,
    describe_row,
    merge_tasks,
)
from nevis_stream.evaluation_cache.importers.record import (
    FAILED,
    Log,
    name_first,
    summarise_remarks,
)
from nevis_stream.evaluation_cache.records import LeftOut
from nevis_stream.evaluation_cache.tables import RawTable
from nevis_stream.evaluation_cache.values import Ranges, is_unbounded, join_words
from nevis_stream.queries.prices import UNITS


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
        if not _find_matches(word, known):
            raise BadInput(f"--metrics={word}: {unknown('metric', word, known)}")
    chosen: dict[str, str] = {}
    without: list[str] = []
    for task, each in by_task.items():
        if any(log.values for log in each):
            chosen[task] = _choose_metric(task, each, wanted, ranges, remarks)
        else:
            without.append(f"task {task!r} {_explain_no_metric(each)}")
    if not chosen:
        raise BadInput(f"{logs[0].path}: {without[0]}")
    reason = "tasks without a metric that has a number for each sample"
    return chosen, [LeftOut(reason, len(without), name_first(without))] if without else []


def _find_matches(word: str, names: Sequence[str]) -> list[str]:
    """Returns the names that a word stands for: itself, or those of which it is a part."""
    return [word] if word in names else [name for name in names if word in name.split(",")]


def _explain_no_metric(logs: Sequence[Log]) -> str:
    """Returns why no metric of a task can be read, given its logs."""
    skipped = sorted({name for log in logs for name in log.skipped})
    errors = [what for log in logs for kind, what in log.remarks if kind == FAILED]
    if errors and not skipped:
        return f"has no sample with a value; {FAILED}: {errors[0]}"
    return (
        "has no metric with a number for each sample"
        f" ({', '.join(skipped) or 'no metric at all'}).{_suggest_grades(logs, skipped)}"
    )


def _choose_metric(
    task: str, logs: Sequence[Log], wanted: Sequence[str], ranges: Ranges, remarks: list[str]
) -> str:
    """Returns the metric that is read of a task, given its logs; see `choose_metrics`."""
    names = list(dict.fromkeys(name for log in logs for name in log.values))
    skipped = sorted({name for log in logs for name in log.skipped} - set(names))
    chosen = ""
    for word in wanted:
        if matches := _find_matches(word, names):
            if len(matches) > 1:
                raise BadInput(
                    f"--metrics={word}: task {task!r} has {' and '.join(matches)}; name one."
                )
            chosen = matches[0]
            break
    if not chosen:
        counts = {name: sum(name in log.values for log in logs) for name in names}
        fits = {name: _lies_in_range(name, logs, ranges) for name in names}
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
    if hint := _suggest_grades(logs, [chosen]):
        raise BadInput(f"{logs[0].path.parent}: task {task!r}, {chosen}:{hint}")
    return chosen


def _lies_in_range(name: str, logs: Sequence[Log], ranges: Ranges) -> bool:
    """Returns whether a metric has a range, and all its values lie in it."""
    stated = next((log.ranges[name] for log in logs if name in log.ranges), None)
    ends = stated or ranges.find(logs[0].task, name)
    if isinstance(ends, str) or (ends is None and is_unbounded(name)):
        return False
    low, high = ends or (0.0, 1.0)
    return all(
        low <= value <= high for log in logs for value, _ in log.values.get(name, {}).values()
    )


def _suggest_grades(logs: Sequence[Log], metrics: Sequence[str]) -> str:
    """Returns what to do about values of metrics that are texts (grades); "" if there are none."""
    grades: dict[str, str] = {}
    for log in logs:
        for skipped in (each for name in metrics for each in log.skipped.get(name, {}).values()):
            if isinstance(skipped.value, str):
                place = f"{log.file}, {skipped.place}, of {log.model}"
                grades.setdefault(skipped.value, place)
    if not grades:
        return ""
    texts = ",".join(f"{grade}=…" for grade in sorted(grades))
    first, place = next(iter(grades.items()))
    return (
        f" The grade {first!r} ({place}) is not a number; say what grades count: --grades={texts}"
    )


def describe_models_without(
    task: str, metric: str, logs: Sequence[tuple[str, Log]]
) -> Iterator[tuple[str, str]]:
    """Yields kind and text of remarks on rows without the metric, or with values that are no
    numbers.
    """
    for row, log in logs:
        if not log.values.get(metric):
            others = ", ".join(log.values) or "no other with numbers"
            yield "left unknown", f"{row} has no {metric} on {task} (it has {others})"
        elif skipped := log.skipped.get(metric):
            place = f"{log.file}, {next(iter(skipped.values())).place}"
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


def choose_counted(
    logs: Sequence[tuple[str, Log]],
) -> tuple[list[tuple[str, Log]], list[LeftOut], list[str]]:
    """Returns the logs that count, those that do not, and lines for people about fragments that
    count.

    Args:
      logs: name of the row, and log.
    """
    by_cell: dict[tuple[str, str], list[Log]] = {}
    for row, log in logs:
        by_cell.setdefault((row, log.task), []).append(log)
    counted, fragments = [], []
    left_out: dict[str, list[str]] = {}
    for (row, task), group in by_cell.items():
        group.sort(key=lambda log: str(log.path))  # of equal dates the first path counts
        best = max(group, key=lambda log: (not _is_fragment(log, group), log.date))
        counted.append((row, best))
        for log in (log for log in group if log is not best):
            left_out.setdefault(_explain_left_out(log, best), []).append(
                f"{log.describe()} of {row} on {task}"
            )
        if _is_fragment(best, group):
            fragments.append(f"{best.describe()} of {row} on {task}")
    replaced = [
        LeftOut(reason, len(texts), name_first(texts)) for reason, texts in left_out.items()
    ]
    remarks = [f"read, although not complete: {name_first(fragments)}"] if fragments else []
    return counted, replaced, remarks


def _explain_left_out(log: Log, best: Log) -> str:
    """Returns why a log does not count beside the one that does."""
    if log.date != best.date or bool(log.truncation) != bool(best.truncation):
        return "logs of a model and task that has another log, which is complete or later"
    values, others = (
        {name: {k: v for k, (v, _) in by.items()} for name, by in each.values.items()}
        for each in (log, best)
    )
    if values == others:
        return "copies of logs that are read"
    return "logs with other values than those of the same date that are read"


def _is_fragment(log: Log, group: Sequence[Log]) -> bool:
    """Returns whether a log lacks samples: it says so; or it says nothing, and another log of the
    group has all of its samples and more.
    """
    if log.truncation is not None:
        return bool(log.truncation)
    return any(log.samples < other.samples for other in group)


_RANGE = "range"
_TOLERANCE = 5e-4  # of the range: a reported score that differs by more differs


def join_logs(
    logs: Sequence[tuple[str, Log]],
    facts: Mapping[str, tuple[str, Mapping[str, str]]],
    metrics: Sequence[str],
    ranges: Ranges,
    remarks: list[str],
    left_out: list[LeftOut],
    with_failed: bool = False,
) -> RawTable:
    """Returns the values of the logs that count.

    Args:
      logs: name of the row, and log; of several of a row and task with a value of a sample, the
        last one's is taken.
      facts: model and variant by name of the row.
      metrics: as of `read_logs`.
      ranges: of the values.
      remarks: lines for people; gains more at the end.
      left_out: what is not read; may gain more.
      with_failed: whether samples of which every evaluation failed are columns too.
    """
    chosen, without = choose_metrics([log for _, log in logs], metrics, ranges, remarks)
    left_out += without
    logs_of_task: dict[str, list[tuple[str, Log]]] = {task: [] for task in chosen}
    for row, log in logs:
        if log.task in chosen:
            logs_of_task[log.task].append((row, log))
    said, reported = [], []
    for task, each in logs_of_task.items():
        said += describe_models_without(task, chosen[task], each)
        reported += [_compare_reported(row, log, chosen[task], ranges) for row, log in each]
    remarks += summarise_remarks(said) + summarise_remarks(filter(None, reported))
    kept = [(row, log) for row, log in logs if log.values.get(chosen.get(log.task, ""))]
    if empty := sorted({row for row, _ in logs} - {row for row, _ in kept}):
        left_out.append(
            LeftOut("models without a value of what is read", len(empty), name_first(empty))
        )
    logs = kept
    columns, hashes = _number_columns([log for _, log in logs], chosen, with_failed)
    by_model: dict[str, list[Log]] = {}
    for row, log in logs:
        by_model.setdefault(row, []).append(log)
    values, places = np.full((len(by_model), len(columns)), np.nan), {}
    failed = []
    for i, own in enumerate(by_model.values()):
        for log in own:
            found = log.values[chosen[log.task]]
            cells = [columns[log.task, sample] for sample in found]
            values[i, cells] = [value for value, _ in found.values()]
            for k, (_, place) in zip(cells, found.values(), strict=True):
                places[i, k] = f"{log.file}, {place}"
            lost = [(log.task, sample) for sample in log.failed if sample not in found]
            failed += [(i, columns[cell]) for cell in lost if cell in columns]
    failed = [cell for cell in failed if np.isnan(values[cell])]  # another log may have a value
    provenances = []
    models = list(by_model)
    for row, own in by_model.items():
        identity = next((log.identity for log in own if log.identity is not None), None)
        settings = {log.task: log.settings for log in own}
        provenances.append(describe_row(*facts[row], identity, settings))
    remarks += compare_settings(list(zip(models, provenances, strict=True)))
    return RawTable(
        models,
        [f"{task}/{sample}" for task, sample in columns],
        values,
        provenances,
        _make_provenance([log for _, log in logs], columns, hashes, chosen),
        remarks=remarks,
        left_out=left_out,
        places=places,
        failed=failed,
        prices=_average_prices([log for _, log in logs], columns),
    )


def join_metrics(tables: Sequence[RawTable]) -> RawTable:
    """Returns one table of several metrics of the same logs, whose columns are SAMPLE#METRIC."""
    models = list(dict.fromkeys(model for table in tables for model in table.models))
    provenances: dict[str, dict[str, Any]] = {}
    samples, blocks, facts = [], [], []
    places, failed, remarks, left_out = {}, [], [], []
    for table in tables:
        rows, start = [models.index(model) for model in table.models], len(samples)
        for model, new in zip(table.models, table.model_provenance, strict=True):
            old = provenances.get(model, {})
            merged = merge_tasks(model, old, new)
            provenances[model] = old | new | ({TASKS: merged} if merged else {})
        block = np.full((len(models), len(table.samples)), np.nan)
        block[rows] = table.values
        blocks.append(block)
        facts += table.sample_provenance
        samples += [
            f"{sample}#{each[METRIC]}"
            for sample, each in zip(table.samples, table.sample_provenance, strict=True)
        ]
        places |= {(rows[i], start + k): place for (i, k), place in table.places.items()}
        failed += [(rows[i], start + k) for i, k in table.failed]
        remarks += [line for line in table.remarks if line not in remarks]
        left_out += [each for each in table.left_out if each not in left_out]
    prices = {
        unit: np.concatenate(
            [table.prices.get(unit, np.full(len(table.samples), np.nan)) for table in tables]
        )
        for unit in dict.fromkeys(unit for table in tables for unit in table.prices)
    }
    return RawTable(
        *(models, samples, np.hstack(blocks), [provenances[model] for model in models], facts),
        remarks=remarks,
        left_out=left_out,
        places=places,
        failed=failed,
        prices=prices,
    )


def keep_metric(logs: Sequence[tuple[str, Log]], word: str) -> list[tuple[str, Log]]:
    """Returns the logs that have a metric of which `word` is the name or a part.

    Raises:
      BadInput: none has it.
    """
    kept = [(row, log) for row, log in logs if _find_matches(word, list(log.values))]
    if not kept:
        known = sorted({name for _, log in logs for name in log.values})
        raise BadInput(f"--metrics={word}: {unknown('metric', word, known)}")
    return kept


def _average_prices(
    logs: Sequence[Log], columns: Mapping[tuple[str, str], int]
) -> dict[str, np.ndarray]:
    """Returns, by unit, the mean of what the answers to each sample cost, float64[n], NaN where no
    log says it.
    """
    result = {}
    for unit in UNITS:
        total, count = np.zeros((2, len(columns)))
        for log in logs:
            for sample, amounts in log.prices.get(unit, {}).items():
                if (column := columns.get((log.task, sample))) is not None:
                    total[column] += sum(amounts)
                    count[column] += len(amounts)
        if count.any():
            result[unit] = np.divide(total, count, np.full(len(columns), np.nan), where=count > 0)
    return result


def _compare_reported(row: str, log: Log, metric: str, ranges: Ranges) -> tuple[str, str] | None:
    """Returns kind and text of a remark if the log reports another score than the mean of its
    values, else None.
    """
    reported = log.reported.get(metric)
    values = [value for value, _ in log.values.get(metric, {}).values()]
    if reported is None or not values:
        return None
    mean = sum(values) / len(values)
    stated = log.ranges.get(metric) or ranges.find(log.task, metric)
    value_range = (0.0, 1.0) if stated is None or isinstance(stated, str) else stated
    if abs(mean - reported.score) <= _TOLERANCE * (value_range[1] - value_range[0]):
        return None
    samples = "" if reported.samples is None else f" of {plural(reported.samples, 'sample')}"
    how = "" if reported.aggregation == "mean" else f" (aggregated by {reported.aggregation})"
    return (
        "the log itself reports another score than the mean of what was read",
        f"{row} on {log.task}, {metric}: {reported.score:.4f}{samples}{how}, not {mean:.4f} of"
        f" {plural(len(values), 'sample')} ({log.file})",
    )


def _number_columns(
    logs: Sequence[Log], chosen: Mapping[str, str], with_failed: bool
) -> tuple[dict[tuple[str, str], int], dict[tuple[str, str], str]]:
    """Returns, by task and sample, the number of its column, from 0, and the hash of its content,
    where a log has it.

    Raises:
      BadInput: samples of two logs have the same id and other contents.
    """
    first: dict[tuple[str, str], tuple[str, Log]] = {}  # content, and the log that has it
    columns: dict[tuple[str, str], int] = {}
    for log in logs:
        for sample in [*log.values[chosen[log.task]], *(log.failed if with_failed else ())]:
            key, content = (log.task, sample), log.hashes.get(sample, "")
            earlier, other = first.get(key, ("", log))
            if earlier and content and earlier != content:
                raise BadInput(
                    f"{log.path}: sample {sample} of {log.task} has another content than in"
                    f" {other.path} (doc_hash, or input and target): these logs are of different"
                    " versions of the task, or number their samples in another order. Import them"
                    " into caches of their own, or give the samples ids that stay."
                )
            if content and not earlier:
                first[key] = content, log
            columns.setdefault(key, len(columns))
    return columns, {key: content for key, (content, _) in first.items()}


def _make_provenance(
    logs: Sequence[Log],
    columns: Mapping[tuple[str, str], int],
    hashes: Mapping[tuple[str, str], str],
    chosen: Mapping[str, str],
) -> list[dict[str, Any]]:
    """Returns the provenance of each column: data set, metric, its direction and the hash of the
    content, where a log has them.

    Raises:
      BadInput: the logs of a task state different directions or ranges of the metric.
    """
    stated: dict[tuple[str, str], tuple[Any, Log]] = {}  # by task, and `DIRECTION` or `_RANGE`
    for log in logs:
        metric = chosen[log.task]
        for name, value in (
            (DIRECTION, log.higher_is_better.get(metric)),
            (_RANGE, log.ranges.get(metric)),
        ):
            if value is None:
                continue
            earlier, other = stated.setdefault((log.task, name), (value, log))
            if earlier != value:
                raise BadInput(
                    f"{log.path}: {metric} on {log.task} has {name} = {value}, but {earlier} in the"
                    f" results of {other.path}."
                )
    facts: dict[str, dict[str, Any]] = {task: {} for task in chosen}
    for (task, name), (value, _) in stated.items():
        facts[task] |= dict(zip(RANGE, value, strict=True)) if name == _RANGE else {name: value}
    return [
        {"dataset": task, METRIC: chosen[task]}
        | facts[task]
        | ({HASH: hashes[task, sample]} if (task, sample) in hashes else {})
        for task, sample in columns
    ]
