"""Reads logs of evaluations: per-sample logs of lm-evaluation-harness, and logs of inspect_ai.

A path is a file or a directory, which is searched with all its subdirectories:

  samples_TASK_DATE.jsonl   of lm-evaluation-harness with --log_samples: a JSON object in each line,
                            with `doc_id`, `filter`, `metrics` and each metric's value; the model's
                            name is in results_DATE.json, or the name of the directory
  *.eval, *.json            of inspect_ai, read with its package

A task is a data set, a sample's id is TASK/ID. A task may have several metrics (acc, acc_norm; or
one metric with several filters; or several scorers): its first one is read, or the first of those
that the caller names. Of several logs of a model on a task the latest is read.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.dynamic_evaluation.cache.tables import RawTable
from nevis_stream.errors import BadInput, unknown
from nevis_stream.wording import plural

_SAMPLES = re.compile(r"samples_(?P<task>.+)_(?P<date>\d{4}-\d\d-\d\dT[\d.:-]+)\.jsonl$")
# keys of a line of lm-evaluation-harness that are not metrics
_OTHER_KEYS = frozenset(
    [
        *("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"),
        *("doc_hash", "prompt_hash", "target_hash"),
    ]
)
_INSPECT_JSON = re.compile(r"\d{4}-\d\d-\d\dT.*\.json$")


@dataclass
class Log:
    """The values of one model on one task.

    Attributes:
      path: of the file.
      model, task: names.
      date: as text; later logs have greater ones.
      values: by metric, in the order of the file, and sample: value and place (for example "line
        3").
      hashes: by sample, of its content, where the log has them.
      skipped: numbers of values that are not numbers, by metric.
    """

    path: Path
    model: str
    task: str
    date: str
    values: dict[str, dict[str, tuple[float, str]]] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)

    def add(self, metric: str, sample: str, value: Any, place: str) -> None:
        """Adds a value; one that is not a number makes the metric unusable."""
        if not isinstance(value, bool | int | float):
            self.skipped[metric] += 1
            return
        cells = self.values.setdefault(metric, {})
        if sample in cells:
            raise BadInput(f"{self.path}, {place}: sample {sample} has {metric} twice.")
        cells[sample] = float(value), place


def is_log(path: Path) -> bool:
    """Whether a path is a log, or a directory that contains one."""
    if path.is_dir():
        return any(is_log(each) for each in path.rglob("*") if each.is_file())
    return bool(_SAMPLES.search(path.name)) or _is_inspect(path)


def read_logs(path: Path, metrics: Sequence[str] = ()) -> RawTable:
    """Reads all logs in a path.

    Args:
      path: a file or a directory.
      metrics: of each task the first of these that it has is read, else its first metric.

    Raises:
      BadInput: a log cannot be read, two models' logs have different samples with the same id, no
        metric has numbers, or inspect_ai is not installed.
    """
    files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]
    logs: list[Log] = []
    for file in files:
        if _SAMPLES.search(file.name):
            logs.append(_lm_eval(file))
        elif _is_inspect(file):
            logs.append(_inspect(file))
    if not logs:
        raise BadInput(
            f"{path}: has no logs: neither samples_TASK_DATE.jsonl of lm-evaluation-harness"
            " (--log_samples) nor logs of inspect_ai."
        )
    latest: dict[tuple[str, str], Log] = {}
    for log in sorted(logs, key=lambda log: log.date):
        latest[log.model, log.task] = log
    remarks = []
    if older := len(logs) - len(latest):
        were = "was" if older == 1 else "were"
        remarks.append(f"{plural(older, 'older log')} of the same model and task {were} left out")
    known_metrics = {name for log in logs for name in log.values}
    for name in metrics:
        if name not in known_metrics:
            raise BadInput(f"{path}: {unknown('metric', name, sorted(known_metrics))}")
    return _table(list(latest.values()), metrics, remarks)


def _table(logs: Sequence[Log], metrics: Sequence[str], remarks: list[str]) -> RawTable:
    models = list(dict.fromkeys(log.model for log in logs))
    chosen: dict[str, str] = {}
    for task in dict.fromkeys(log.task for log in logs):
        of_task = [log for log in logs if log.task == task]
        names = list(dict.fromkeys(name for log in of_task for name in log.values))
        skipped = sorted({name for log in of_task for name in log.skipped} - set(names))
        if not names:
            raise BadInput(
                f"{of_task[0].path}: task {task!r} has no metric with a number for each sample"
                f" ({', '.join(skipped) or 'no metric at all'})."
            )
        chosen[task] = next((name for name in metrics if name in names), names[0])
        others = [name for name in names if name != chosen[task]]
        if others:
            names = ", ".join(others)
            remarks.append(f"{task}: {chosen[task]} is read; --metrics may name others: {names}")
        if skipped:
            remarks.append(f"{task}: without a number for each sample: {', '.join(skipped)}")
        if lost := sum(log.skipped[chosen[task]] for log in of_task):
            remarks.append(
                f"{task}: {plural(lost, 'value')} of {chosen[task]} {'is' if lost == 1 else 'are'}"
                " not numbers and left unknown"
            )
    samples: dict[tuple[str, str], str] = {}  # content hashes
    columns: dict[tuple[str, str], int] = {}
    for log in logs:
        for sample in log.values.get(chosen[log.task], {}):
            key = log.task, sample
            content = log.hashes.get(sample, "")
            earlier = samples.setdefault(key, content)
            if earlier and content and earlier != content:
                raise BadInput(
                    f"{log.path}: sample {sample} of {log.task} differs from that of another log"
                    " (doc_hash): these logs are of different versions of the task."
                )
            columns.setdefault(key, len(columns))
    values, places = np.full((len(models), len(columns)), np.nan), {}
    for log in logs:
        for sample, (value, place) in log.values.get(chosen[log.task], {}).items():
            cell = models.index(log.model), columns[log.task, sample]
            values[cell], places[cell] = value, f"{log.path.name}, {place}"
    return RawTable(
        models,
        [f"{task}/{sample}" for task, sample in columns],
        values,
        [{} for _ in models],
        [{"dataset": task, "metric": chosen[task]} for task, _ in columns],
        places=places,
        remarks=remarks,
    )


def _lm_eval(path: Path) -> Log:
    match = _SAMPLES.search(path.name)
    assert match
    log = Log(path, _lm_eval_model(path, match["date"]), match["task"], match["date"])
    for number, line in _lines(path):
        place = f"line {number}"
        if not isinstance(line, dict) or "doc_id" not in line:
            raise BadInput(f"{path}, {place}: has no `doc_id`, so it is not a sample.")
        sample, filtered = str(line["doc_id"]), line.get("filter", "none")
        suffix = "" if filtered == "none" else f",{filtered}"
        names = line.get("metrics", [name for name in line if name not in _OTHER_KEYS])
        for name in names:
            if name in line:
                log.add(f"{name}{suffix}", sample, line[name], place)
        if "doc_hash" in line:
            log.hashes[sample] = str(line["doc_hash"])
    return log


def _lm_eval_model(path: Path, date: str) -> str:
    """Returns the model's name: that of the results of the same date, or the directory's, in which
    the harness replaces "/" by "__".
    """
    results = path.with_name(f"results_{date}.json")
    if results.is_file():
        try:
            name = json.loads(results.read_text(encoding="utf-8")).get("model_name")
        except (ValueError, AttributeError) as error:
            raise BadInput(f"{results}: cannot be read as JSON ({error}).") from None
        if name:
            return str(name)
    return path.resolve().parent.name.replace("__", "/")


def _lines(path: Path) -> Iterator[tuple[int, Any]]:
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                try:
                    yield number, json.loads(line)
                except ValueError as error:
                    raise BadInput(f"{path}, line {number}: is not JSON ({error}).") from None


def _is_inspect(path: Path) -> bool:
    """Whether a file is named as inspect_ai names its logs: *.eval, or DATE_TASK_ID.json."""
    return path.suffix == ".eval" or bool(_INSPECT_JSON.match(path.name))


def _inspect(path: Path) -> Log:
    try:
        from inspect_ai.log import read_eval_log
        from inspect_ai.scorer import value_to_float
    except ImportError:
        raise BadInput(
            f"{path}: logs of inspect_ai need its package: `pip install inspect-ai`, or the extra"
            " `nevis_stream[logs]`."
        ) from None
    try:
        content = read_eval_log(str(path))
    except Exception as error:  # of many kinds, from zip files to validation
        raise BadInput(f"{path}: cannot be read as a log of inspect_ai ({error}).") from None
    log = Log(path, content.eval.model, content.eval.task, str(content.eval.created))
    number = value_to_float()
    epochs: dict[tuple[str, str], list[float]] = {}
    for sample in content.samples or []:
        for metric, value in _scores(sample.scores or {}):
            if isinstance(value, str | bool | int | float):
                epochs.setdefault((metric, str(sample.id)), []).append(number(value))
            else:
                log.skipped[metric] += 1
    for (metric, sample_id), values in epochs.items():
        log.add(metric, sample_id, sum(values) / len(values), f"sample {sample_id}")
    return log


def _scores(scores: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    """Yields the name and value of each score; a scorer with several values has SCORER,VALUE."""
    for scorer, score in scores.items():
        if isinstance(score.value, dict):
            yield from ((f"{scorer},{name}", value) for name, value in score.value.items())
        else:
            yield scorer, score.value
