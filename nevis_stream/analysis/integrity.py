"""Whether a ledger holds together: no event lost, doubled or malformed, so that sums are right."""

import json
import math
from collections.abc import Mapping
from typing import Any

from nevis_stream.errors import BadInput, unknown
from nevis_stream.run_directory.ledger import Ledger

PROTOCOLS = ("meta_test", "meta_train")
META_SPLITS = ("train", "test")
SPLITS = ("test", "dev_test")

_TEXT = {
    "run": ("learner", "stream", "stream_digest", "protocol", "config_hash"),
    "train": ("task_id", "dataset_id", "domain", "task_kind", "meta_split"),
    "predict": ("task_id", "split", "metric"),
}
_WHOLE = {
    "run": ("seed", "tasks", "events"),
    "train": ("event", "order"),
    "predict": ("event", "order", "n"),
}
# of a train record, where they are known
_FACTS = ("n_train", "n_dev", "n_leaked", "size", "num_classes", "mean_height", "mean_width")
_MOST = 2**53  # above, floats skip whole numbers
_MOST_FLOPS = 10**36  # more than all computers together have ever done
_LAST_YEAR = 9999
_CHOICES = {"protocol": PROTOCOLS, "meta_split": META_SPLITS, "split": SPLITS}


def check(ledger: Ledger) -> None:
    """Checks that every record has what the analysis reads and that no event is missing or doubled.

    Args:
      ledger: a run's ledger, complete or not.

    Raises:
      BadInput: what is wrong, in which record of which file.
    """
    if not ledger.records:
        return
    copied = "source" in ledger.header
    for position, record in enumerate(ledger.records):
        try:
            _check_letters(record)
            _check_copied(record) if copied else _check_counted(record)
            _check_record(record)
            _check_place(position, record, len(ledger.records))
        except ValueError as error:
            raise BadInput(f"{ledger.path}, record {position + 1}: {error}") from None
    _check_tasks(ledger)
    if ledger.complete:
        _check_counts(ledger)


def _check_record(record: Mapping[str, Any]) -> None:
    kind = record["kind"]
    for name in _TEXT.get(kind, ()):
        if not isinstance(record.get(name), str):
            raise ValueError(
                f"{name} of a {kind} record is {_short(record.get(name))}, not a text."
            )
        if name in _CHOICES and record[name] not in _CHOICES[name]:
            raise ValueError(unknown(name, record[name], _CHOICES[name]))
    if kind == "run":
        if not isinstance(record.get("budget"), str | None):
            raise ValueError(
                f"budget of a run record is {_short(record['budget'])}, not a text or null."
            )
        if not _is_count(record["schema"]):
            raise ValueError(f"schema of a run record is {record['schema']!r}, not a number.")
    for name in _WHOLE.get(kind, ()):
        if name == "n" and record.get("n", "missing") is None:
            continue
        if not _is_count(record.get(name)):
            raise ValueError(
                f"{name} of a {kind} record is {_short(record.get(name))}, not a count up to 2**53."
            )
    if kind == "predict":
        _check_result(record)
    if kind == "train":
        _check_task(record)


def _check_task(record: Mapping[str, Any]) -> None:
    for name in _FACTS:
        if record.get(name) is not None and not _is_size(record[name]):
            raise ValueError(
                f"{name} of a train record is {_short(record[name])}, neither a number from 0 to"
                " 2**53 nor null."
            )
    year = record.get("year")
    if year is not None and not (_is_count(year) and year <= _LAST_YEAR):
        raise ValueError(f"year of a train record is {_short(year)}, neither a year nor null.")
    trials = record.get("trials")
    if not isinstance(trials, list) or not all(isinstance(trial, dict) for trial in trials):
        raise ValueError("trials of a train record is not a list of records.")
    if not isinstance(record.get("chosen"), int | None):
        raise ValueError(
            f"chosen of a train record is {_short(record['chosen'])}, not a trial or null."
        )


def _check_counted(record: Mapping[str, Any]) -> None:
    """A record of the runner, which counts what it does."""
    if record["kind"] != "end":
        _check_flops(record.get("flops"))
    if record["kind"] == "predict" and record.get("n") is None:
        raise ValueError("n of a predict record is None, not a count.")


def _check_copied(record: Mapping[str, Any]) -> None:
    """A record of results copied from a publication, whose costs are not known."""
    if record["kind"] == "run":
        for name in ("source", "flops_reason"):
            if not (isinstance(record.get(name), str) and record[name]):
                raise ValueError(
                    f"{name} of a run record is {_short(record.get(name))}, not a text."
                )
        left_out = record.get("left_out")
        if not isinstance(left_out, dict) or not all(isinstance(x, str) for x in left_out.values()):
            raise ValueError("left_out of a run record is not a table of reasons by task.")
    if record["kind"] != "end" and record.get("flops", "missing") is not None:
        raise ValueError(
            f"flops is {record.get('flops', 'missing')!r}, not null as in a run that was copied."
        )


def _check_flops(flops: Any) -> None:
    phases = flops.values() if isinstance(flops, dict) else (None,)
    if not all(isinstance(by_trial, dict) for by_trial in phases) or not all(
        _is_count(count, _MOST_FLOPS) for by_trial in phases for count in by_trial.values()
    ):
        raise ValueError(f"flops is {_short(flops)}, not counts up to 10**36 by phase and trial.")


def _check_result(record: Mapping[str, Any]) -> None:
    error, value = record.get("error", "missing"), record.get("value")
    if error is not None and not (_is_number(error) and error == error and abs(error) != math.inf):
        raise ValueError(f"error is {_short(error)}, neither a finite number nor null.")
    if error is not None and not 0 <= error <= 1:
        raise ValueError(f"error is {_short(error)}; errors are between 0 and 1.")
    if value is not None and not (_is_number(value) and abs(value) <= _MOST):
        raise ValueError(f"value is {_short(value)}, neither a number nor null.")
    if not isinstance(record.get("trial"), int | None):
        raise ValueError(f"trial is {_short(record['trial'])}, neither a number nor null.")
    if not isinstance(record.get("reason"), str | None):
        raise ValueError(f"reason is {_short(record['reason'])}, neither a text nor null.")


def _check_letters(record: Mapping[str, Any]) -> None:
    try:
        json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"a text that is not Unicode ({error.reason}).") from None


def _check_place(position: int, record: Mapping[str, Any], length: int) -> None:
    kind = record["kind"]
    if (kind == "run") != (position == 0):
        raise ValueError(f"a {kind} record in this place; there is one run record, the first.")
    if kind == "end" and position != length - 1:
        raise ValueError("an end record before the last line.")
    if kind in ("train", "predict") and record["event"] != position - 1:
        raise ValueError(f"event {record['event']} where event {position - 1} is due.")


def _check_tasks(ledger: Ledger) -> None:
    trained: set[str] = set()
    predicted: set[tuple[str, str]] = set()
    for record in ledger.records:
        task = record.get("task_id")
        if record["kind"] == "train":
            if task in trained:
                raise BadInput(f"{ledger.path}: task {task!r} is trained twice.")
            trained.add(task)
        elif record["kind"] == "predict":
            if task not in trained:
                raise BadInput(f"{ledger.path}: task {task!r} is predicted but never trained.")
            if (task, record["split"]) in predicted:
                raise BadInput(f"{ledger.path}: {task!r}, {record['split']} is predicted twice.")
            predicted.add((task, record["split"]))


def _check_counts(ledger: Ledger) -> None:
    found = {"tasks": len(ledger.of_kind("train")), "events": len(ledger.records) - 2}
    for name, count in found.items():
        if count != ledger.header[name]:
            announced = ledger.header[name]
            raise BadInput(f"{ledger.path}: ends after {count} {name}; announced were {announced}.")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any, most: int = _MOST) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


def _is_size(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= _MOST


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
