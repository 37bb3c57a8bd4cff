"""Reads logs of evaluations: per-sample logs of lm-evaluation-harness, and logs of inspect_ai.

A path is a file or a directory, which is searched with all its subdirectories:

  samples_TASK_DATE.jsonl   of lm-evaluation-harness with --log_samples: a JSON object in each line,
                            with `doc_id`, `filter`, `metrics` and each metric's value; what was
                            evaluated is in results_DATE.json (see `harness`)
  *.eval, *.json            of inspect_ai, read with its package (see `inspect_logs`)

Every reader fills in the same record (`record.Log`). A task is a data set, a sample's id is
TASK/ID, and its content is known by a hash. A task may have several metrics (acc, acc_norm; or one
metric with several filters or reducers; or several scorers): the first of those that the caller
names is read, else the one that most models have. Which row a log belongs to is decided in
`variants`, and which of several logs of a row counts in `counting`.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.errors import BadInput, unknown
from nevis_stream.evaluation_cache import variants
from nevis_stream.evaluation_cache.facts import DIRECTION, HASH, METRIC
from nevis_stream.evaluation_cache.imported import LeftOut
from nevis_stream.evaluation_cache.importers import harness, inspect_logs
from nevis_stream.evaluation_cache.importers.counting import counting
from nevis_stream.evaluation_cache.importers.record import Log, lines, named
from nevis_stream.evaluation_cache.tables import RawTable
from nevis_stream.wording import plural

_ROUNDING = 5e-4  # of the range: a reported score that differs by more differs


def is_log(path: Path) -> bool:
    """Whether a path is a log, or a directory that contains one."""
    if path.is_dir():
        return any(map(is_log, _files(path)))
    return bool(harness.SAMPLES.search(path.name)) or inspect_logs.is_inspect(path)


def read_logs(
    paths: Path | Sequence[Path],
    metrics: Sequence[str] = (),
    grades: Mapping[str, float] | None = None,
    value_range: tuple[float, float] | None = None,
) -> RawTable:
    """Reads all logs in some paths; the order of the paths does not matter.

    Args:
      paths: files or directories.
      metrics: of each task the first of these that it has is read, else the metric that most models
        have.
      grades: numbers of grades, for example {"A": 1, "B": 0.75}.
      value_range: of all values; None: 0 to 1.

    Raises:
      BadInput: a log cannot be read, two models' logs have different samples with the same id, no
        metric has numbers, a grade is not a number, or inspect_ai is not installed.
    """
    paths = [paths] if isinstance(paths, Path) else list(paths)
    where, grades = ", ".join(map(str, paths)), grades or {}
    logs, left_out = _read(paths, grades)
    if not logs:
        raise BadInput(
            f"{where}: has no logs: neither samples_TASK_DATE.jsonl of lm-evaluation-harness"
            " (--log_samples) nor logs of inspect_ai."
        )
    known_metrics = {name for log in logs for name in log.values}
    for name in metrics:
        if name not in known_metrics:
            raise BadInput(f"{where}: {unknown('metric', name, sorted(known_metrics))}")
    labels = variants.by_variant(
        [(log.model, log.identity, log.task, log.settings) for log in logs]
    )
    labelled = zip(labels, logs, strict=True)
    rows = [(variants.name(log.model, label), log) for label, log in labelled]
    facts = {name: (log.model, label) for (name, log), label in zip(rows, labels, strict=True)}
    counted, replaced, remarks = counting(rows)
    left_out += replaced
    counted.sort(key=lambda each: (each[0], each[1].task))
    remarks += lines(remark for _, log in counted for remark in log.remarks)
    return _table(counted, facts, metrics, value_range or (0.0, 1.0), remarks, left_out)


def _read(paths: Sequence[Path], grades: Mapping[str, float]) -> tuple[list[Log], list[LeftOut]]:
    """Returns the logs in some paths, and files that look like logs but are none."""
    files = {each for path in paths for each in _files(path)}
    results: dict[Path, dict[str, Any]] = {}
    logs, others = [], []
    for file in sorted(files):
        if harness.SAMPLES.search(file.name):
            logs.append(harness.read(file, results, grades))
        elif inspect_logs.is_inspect(file):
            logs.append(inspect_logs.read(file, grades))
        elif file.name.startswith("samples_") and file.suffix == ".jsonl":
            others.append(str(file))
    reason = "files that are not named samples_TASK_DATE.jsonl"
    return logs, [LeftOut(reason, len(others), named(others))] if others else []


def _files(path: Path) -> list[Path]:
    """Returns a file, or all files below a folder; `rglob` fails in folders 1,000 deep."""
    if not path.is_dir():
        return [path]
    found, pending = [], [path]
    while pending:
        for each in pending.pop().iterdir():
            if each.is_dir() and not each.is_symlink():
                pending.append(each)
            elif each.is_file():
                found.append(each)
    return found


def _table(
    logs: Sequence[tuple[str, Log]],
    facts: Mapping[str, tuple[str, Mapping[str, str]]],
    metrics: Sequence[str],
    value_range: tuple[float, float],
    remarks: list[str],
    left_out: list[LeftOut],
) -> RawTable:
    """Returns the values of the logs that count.

    Args:
      logs: name of the row, and log; one for each row and task.
      facts: model and variant by name of the row.
      metrics: as of `read_logs`.
      value_range: of the values.
      remarks: lines for people; more are added at the end.
      left_out: what is not read; more may be added.
    """
    chosen, lacking, reported = {}, [], []
    for task in dict.fromkeys(log.task for _, log in logs):
        of_task = [(row, log) for row, log in logs if log.task == task]
        chosen[task] = _metric(task, [log for _, log in of_task], metrics, remarks)
        lacking += _lacking(task, chosen[task], of_task)
        reported += [_compare(row, log, chosen[task], value_range) for row, log in of_task]
    remarks += lines(lacking) + lines(filter(None, reported))
    kept = [(row, log) for row, log in logs if log.values.get(chosen[log.task])]
    if empty := sorted({row for row, _ in logs} - {row for row, _ in kept}):
        left_out.append(LeftOut("models without a value of what is read", len(empty), named(empty)))
    logs = kept
    columns = _columns([log for _, log in logs], chosen)
    models = list(dict.fromkeys(row for row, _ in logs))
    values, places = np.full((len(models), len(columns)), np.nan), {}
    for row, log in logs:
        i = models.index(row)
        for sample, (value, place) in log.values[chosen[log.task]].items():
            cell = i, columns[log.task, sample]
            values[cell], places[cell] = value, f"{log.path.name}, {place}"
    provenances = []
    for row in models:
        own = {log.task: log for name, log in logs if name == row}
        identity = next((log.identity for log in own.values() if log.identity is not None), None)
        settings = {task: log.settings for task, log in own.items()}
        provenances.append(variants.provenance(*facts[row], identity, settings))
    remarks += variants.joined_settings(list(zip(models, provenances, strict=True)))
    return RawTable(
        models,
        [f"{task}/{sample}" for task, sample in columns],
        values,
        provenances,
        _describe(logs, columns, chosen),
        remarks=remarks,
        left_out=left_out,
        places=places,
    )


def _metric(task: str, logs: Sequence[Log], metrics: Sequence[str], remarks: list[str]) -> str:
    """Returns the metric of a task that is read; others are named in the remarks.

    Raises:
      BadInput: no metric has numbers, or a value of the metric is a grade that is no number.
    """
    names = list(dict.fromkeys(name for log in logs for name in log.values))
    skipped = sorted({name for log in logs for name in log.skipped} - set(names))
    if not names:
        raise BadInput(
            f"{logs[0].path}: task {task!r} has no metric with a number for each sample"
            f" ({', '.join(skipped) or 'no metric at all'}).{_grade_hint(logs, skipped)}"
        )
    counts = {name: sum(name in log.values for log in logs) for name in names}
    most = max(names, key=lambda name: counts[name])  # of equal ones the first
    chosen = next((name for name in metrics if name in names), most)
    if others := [name for name in names if name != chosen]:
        texts = ", ".join(others)
        remarks.append(f"{task}: {chosen} is read; --metrics may name others: {texts}")
    if skipped:
        remarks.append(f"{task}: without a number for each sample: {', '.join(skipped)}")
    if hint := _grade_hint(logs, [chosen]):
        raise BadInput(f"{logs[0].path.parent}: task {task!r}, {chosen}:{hint}")
    return chosen


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


def _lacking(task: str, metric: str, logs: Sequence[tuple[str, Log]]) -> Iterator[tuple[str, str]]:
    """Yields remarks on models without the metric, or with values that are no numbers."""
    for row, log in logs:
        if not log.values.get(metric):
            others = ", ".join(log.values) or "no other with numbers"
            yield "left unknown", f"{row} has no {metric} on {task} (it has {others})"
        elif skipped := log.skipped.get(metric):
            place = f"{log.path.name}, {next(iter(skipped.values())).place}"
            text = f"{len(skipped):,} of {row} on {task} ({metric}; for example {place})"
            yield "values that are not numbers, left unknown", text


def _compare(
    row: str, log: Log, metric: str, value_range: tuple[float, float]
) -> tuple[str, str] | None:
    """Returns a remark if the log reports another score than the mean of its values."""
    reported = log.reported.get(metric)
    values = [value for value, _ in log.values.get(metric, {}).values()]
    if reported is None or not values:
        return None
    mean = sum(values) / len(values)
    if abs(mean - reported.score) <= _ROUNDING * (value_range[1] - value_range[0]):
        return None
    samples = "" if reported.samples is None else f" of {plural(reported.samples, 'sample')}"
    how = "" if reported.aggregation == "mean" else f" (aggregated by {reported.aggregation})"
    return (
        "the log itself reports another score than the mean of what was read",
        f"{row} on {log.task}, {metric}: {reported.score:.4f}{samples}{how}, not {mean:.4f} of"
        f" {plural(len(values), 'sample')} ({log.path.name})",
    )


def _columns(logs: Sequence[Log], chosen: Mapping[str, str]) -> dict[tuple[str, str], int]:
    """Returns the column of each task and sample that a log has.

    Raises:
      BadInput: samples of two logs have the same id and other contents.
    """
    first: dict[tuple[str, str], tuple[str, Log]] = {}  # content, and the log that has it
    columns: dict[tuple[str, str], int] = {}
    for log in logs:
        for sample in log.values[chosen[log.task]]:
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
    return columns


def _describe(
    logs: Sequence[tuple[str, Log]],
    columns: Mapping[tuple[str, str], int],
    chosen: Mapping[str, str],
) -> list[dict[str, Any]]:
    """Returns the provenance of each column: data set, metric, its direction and the hash of the
    content, where a log has them.

    Raises:
      BadInput: the logs of a task state different directions of the metric.
    """
    directions: dict[str, tuple[bool, Log]] = {}
    hashes: dict[tuple[str, str], str] = {}
    for _, log in logs:
        metric = chosen[log.task]
        for sample in log.values[metric].keys() & log.hashes.keys():
            hashes.setdefault((log.task, sample), log.hashes[sample])
        if (higher := log.higher_is_better.get(metric)) is not None:
            earlier, other = directions.setdefault(log.task, (higher, log))
            if earlier != higher:
                raise BadInput(
                    f"{log.path}: {metric} on {log.task} has higher_is_better = {higher}, but"
                    f" {earlier} in the results of {other.path}."
                )
    return [
        {"dataset": task, METRIC: chosen[task]}
        | ({DIRECTION: directions[task][0]} if task in directions else {})
        | ({HASH: hashes[task, sample]} if (task, sample) in hashes else {})
        for task, sample in columns
    ]
