"""Reads logs of evaluations; `FORMATS` has a line for each kind, and a module of its own for each.

A path is a file or a directory, which is searched with all its subdirectories. Every reader fills
in the same record (`record.Log`). A task is a data set, a sample's id is TASK/ID, and its content
is known by a hash. A task may have several metrics (acc, acc_norm; or one metric with several
filters or reducers; or several scorers). Which row a log belongs to is decided in `identity`;
`joining` chooses a metric, and which of several logs of a row counts, and makes one table of them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache import identity
from nevis_stream.evaluation_cache.arguments import redact
from nevis_stream.evaluation_cache.importers import (
    every_eval_ever,
    harness,
    helm,
    inspect_logs,
    leaderboard,
)
from nevis_stream.evaluation_cache.importers.joining import (
    choose_counted,
    join_logs,
    join_metrics,
    keep_metric,
    keep_tasks,
)
from nevis_stream.evaluation_cache.importers.record import (
    Format,
    Log,
    SharedFiles,
    name_first,
    summarise_remarks,
)
from nevis_stream.evaluation_cache.records import LeftOut
from nevis_stream.evaluation_cache.tables import RawTable
from nevis_stream.evaluation_cache.values import Ranges

FORMATS: tuple[Format, ...] = (
    harness.FORMAT,
    harness.OLD_FORMAT,
    leaderboard.FORMAT,
    harness.LMMS_FORMAT,
    helm.FORMAT,
    inspect_logs.FORMAT,
    every_eval_ever.FORMAT,
)
"""The first one that matches a file reads it."""


def is_log(path: Path) -> bool:
    """Returns whether a path is a log, or a directory that contains one."""
    if path.is_dir():
        return any(map(_find_format, _list_files(path)))
    return path.is_file() and _find_format(path) is not None


def describe_kinds_of_logs() -> str:
    """Returns the names of files that are logs, for messages."""
    return "; ".join(f"{each.files} ({each.name})" for each in FORMATS)


def _find_format(path: Path) -> Format | None:
    named = (each for each in FORMATS if each.pattern.search(path.name))
    return next((each for each in named if each.is_one is None or each.is_one(path)), None)


def read_logs(
    paths: Path | Sequence[Path],
    metrics: Sequence[str] = (),
    grades: Mapping[str, float] | None = None,
    ranges: Ranges | None = None,
    tasks: Sequence[str] = (),
    with_failed: bool = False,
    every_log: bool = False,
) -> RawTable:
    """Reads all logs in some paths; the order of the paths does not matter.

    Args:
      paths: files or directories.
      metrics: of each task the first of these that it has is read, else the metric that most models
        have. Or METRIC+METRIC: each of them is a column of a sample.
      grades: numbers of grades, for example {"A": 1, "B": 0.75}.
      ranges: of the values; None: 0 to 1.
      tasks: that are read; all if there is none.
      with_failed: whether samples of which every evaluation failed are columns too.
      every_log: whether all logs of a model and task count, of a sample in several the latest; else
        one log does, see `joining`.

    Raises:
      BadInput: a log cannot be read, two models' logs have different samples with the same id, no
        metric has numbers, a grade is not a number, or inspect_ai is not installed.
    """
    paths = [paths] if isinstance(paths, Path) else list(paths)
    where = ", ".join(map(str, paths))
    logs, left_out = _read_all(paths, SharedFiles(grades or {}))
    if not logs:
        raise BadInput(f"{where}: has no logs; these are: {describe_kinds_of_logs()}.")
    logs, others = keep_tasks(logs, tasks)
    left_out += others
    labels = identity.name_variants(
        [(log.model, log.identity, log.task, log.settings) for log in logs]
    )
    labelled = zip(labels, logs, strict=True)
    rows = [(identity.name_row(log.model, label), log) for label, log in labelled]
    facts = {name: (log.model, label) for (name, log), label in zip(rows, labels, strict=True)}
    counted, replaced, remarks = (rows, [], []) if every_log else choose_counted(rows)
    left_out += replaced
    counted.sort(key=lambda each: (each[0], each[1].task, each[1].date))
    remarks += summarise_remarks(remark for _, log in counted for remark in log.remarks)
    ranges = ranges or Ranges()
    if len(names := ",".join(metrics).split("+")) > 1:
        tables = [
            join_logs(
                *(keep_metric(counted, name), facts, [name], ranges),
                *(list(remarks), list(left_out), with_failed),
            )
            for name in dict.fromkeys(names)
        ]
        return join_metrics(tables)
    return join_logs(counted, facts, metrics, ranges, remarks, left_out, with_failed)


def _read_all(paths: Sequence[Path], shared: SharedFiles) -> tuple[list[Log], list[LeftOut]]:
    """Returns the logs in some paths, and files that look like logs but are none."""
    logs: list[Log] = []
    others: list[str] = []
    for file in sorted({each for path in paths for each in _list_files(path)}):
        if log_format := _find_format(file):
            logs += log_format.read(file, shared)
        elif file.name.startswith("samples_") and file.suffix == ".jsonl":
            others.append(redact(f"{file.parent.name}/{file.name}"))
    reason = "files that are not named samples_TASK_DATE.jsonl"
    return logs, [LeftOut(reason, len(others), name_first(others))] if others else []


def _list_files(path: Path) -> list[Path]:
    """Returns the file, or all files below a folder; `rglob` fails in folders 1,000 deep."""
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
