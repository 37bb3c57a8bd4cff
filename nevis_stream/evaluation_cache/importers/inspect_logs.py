"""Reads logs of inspect_ai, `*.eval` and DATE_TASK_ID.json, with its package."""

import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nevis_stream.errors import BadInput, describe_installation
from nevis_stream.evaluation_cache.arguments import (
    IDENTITY_ARGUMENTS,
    clean,
    digest,
    format_facts,
    redact,
)
from nevis_stream.evaluation_cache.importers.harness import TECHNICAL_ARGUMENTS
from nevis_stream.evaluation_cache.importers.record import (
    FAILED,
    Format,
    Log,
    Reported,
    SharedFiles,
    Skipped,
)

_NAME = re.compile(r".\.eval$|^\d{4}-\d\d-\d\dT.*\.json$")
# of a generation's configuration: where and how fast it ran; all others are settings
_TECHNICAL_ARGUMENTS = TECHNICAL_ARGUMENTS | {
    *("attempt_timeout", "stream_idle_timeout", "max_connections", "adaptive_connections"),
    *("cache", "cache_prompt", "batch", "logprobs", "top_logprobs", "prompt_logprobs"),
    *("fallback_models", "reasoning_history", "reasoning_summary"),
}
_LIMITS = ("message_limit", "token_limit", "turn_limit", "time_limit", "working_limit")
_GRADES, _TRUTHS = (
    {"C", "I", "P", "N"},
    {"yes", "no", "true", "false"},
)  # texts that inspect_ai takes for numbers
_MEAN_METRICS = ("accuracy", "mean")  # of what a log reports, the mean of the values


def read(path: Path, shared: SharedFiles) -> list[Log]:
    """Reads a log; inspect_ai's own grades (C, I, P, N, yes, no) are known.

    Raises:
      BadInput: it cannot be read, or inspect_ai is not installed.
    """
    try:
        from inspect_ai.log import read_eval_log
    except ImportError:
        raise BadInput(
            f"{path}: logs of inspect_ai need its package: {describe_installation('logs')}."
        ) from None
    try:
        content = read_eval_log(str(path))
    except Exception as error:  # of many kinds, from zip files to validation
        raise BadInput(
            f"{path}: cannot be read as a log of inspect_ai ({error}); leave it out if it was"
            " cut short."
        ) from None
    about = content.eval
    log = Log(
        path, about.model, about.task, _convert_to_utc(str(about.created)), grades=shared.grades
    )
    _add_description(log, content)
    _add_values(log, content)
    _add_reported(log, content)
    _add_truncation(log, content)
    return [log]


def _convert_to_utc(created: str) -> str:
    """Returns a date as text in UTC, so that dates of several zones can be compared."""
    try:
        date = datetime.fromisoformat(created)
    except ValueError:
        return created
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).astimezone(UTC).isoformat()


def _add_description(log: Log, content: Any) -> None:
    """Adds what the log says of the model, and of how it was evaluated."""
    about, generation = content.eval, {}
    for config in (about.model_generate_config, content.plan.config):
        generation |= config.model_dump(exclude_none=True)
    arguments = {
        name: value
        for name, value in (about.model_args or {}).items()
        if not isinstance(value, dict | list)
    }
    of_model = arguments | {k: v for k, v in generation.items() if k in IDENTITY_ARGUMENTS}
    log.identity = format_facts({k: v for k, v in of_model.items() if k in IDENTITY_ARGUMENTS})
    steps = [
        [step.solver, getattr(step, "params_passed", None) or step.params]
        for step in content.plan.steps
    ]
    roles = getattr(about, "model_roles", None) or {}
    log.settings = format_facts(
        {
            k: v
            for k, v in (arguments | generation).items()
            if k not in IDENTITY_ARGUMENTS | _TECHNICAL_ARGUMENTS
        }
        | (about.task_args or {})
        | {name: getattr(about.config, name, None) for name in _LIMITS}
        | {role: getattr(model, "model", str(model)) for role, model in roles.items()}
        | {"solver": f"#{digest(clean(steps, str))[:8]}", "version": about.task_version}
    )


def _add_truncation(log: Log, content: Any) -> None:
    """Adds the size of the task, and why the log has not all of its samples."""
    config, log.size = content.eval.config, content.eval.dataset.samples
    log.truncation = "" if content.status == "success" else content.status
    is_part = log.size is None or len(content.samples or []) < log.size * (config.epochs or 1)
    if is_part and config.limit is not None:
        limit = config.limit if isinstance(config.limit, int) else "-".join(map(str, config.limit))
        log.truncation = ", ".join(filter(None, (f"--limit={limit}", log.truncation)))
    elif is_part and config.sample_id is not None:
        log.truncation = ", ".join(filter(None, ("--sample-id", log.truncation)))


def _add_values(log: Log, content: Any) -> None:
    """Adds values, hashes and prices of the samples, over epochs as the log's own reducers have
    them.
    """
    from inspect_ai.scorer import value_to_float

    to_number, failed = value_to_float(), []
    epochs: dict[str, dict[str, list[Any]]] = {}  # by metric and sample, the value of each epoch
    for sample in content.samples or []:
        sample_id = str(sample.id)
        content_hash = digest([_drop_message_ids(sample.input), sample.target])
        if log.hashes.setdefault(sample_id, content_hash) != content_hash:
            raise BadInput(
                f"{log.path}: sample {sample_id} has another input or target in another epoch."
            )
        if sample.error is not None:
            failed.append(f"{sample_id}: {redact(str(sample.error.message)).strip()[:60]}")
            log.failed[sample_id] = f"sample {sample_id}"
        usage = (getattr(sample, "model_usage", None) or {}).values()
        log.add_price("tokens", sample_id, sum(each.total_tokens for each in usage))
        log.add_price("seconds", sample_id, getattr(sample, "total_time", None))
        for metric, value in _list_scores(sample.scores or {}):
            epochs.setdefault(metric, {}).setdefault(sample_id, []).append(value)
    if failed:
        log.remarks.append((FAILED, f"{len(failed)} of {log.file}, for example {failed[0]}"))

    def convert(value: Any) -> Any:
        """Returns a value as a number, or as it is if it cannot become one."""
        if isinstance(value, str) and value in log.grades:
            return float(log.grades[value])
        if isinstance(value, str) and not _is_grade(value):
            return value
        return to_number(value) if isinstance(value, str | bool | int | float) else value

    for metric, by_sample in epochs.items():
        _add_metric(log, content, metric, by_sample, convert)


def _add_metric(log: Log, content: Any, metric: str, by_sample, convert) -> None:
    """Adds one metric, given by sample the values of its epochs, and what converts a value."""
    reduced = _reduce(content, metric)
    reducers = list(content.eval.config.epochs_reducer or [])
    raw_values = [value for values in by_sample.values() for value in values]
    has_own = any(isinstance(value, str) and value in log.grades for value in raw_values)
    if has_own or not reduced:
        reduced = {"": {}}
        if others := [name for name in reducers if name != "mean"]:
            kind = "the mean of the epochs is read, not what the log's own reducer makes of them"
            log.remarks.append((kind, f"{metric} of {log.file}, by {' and '.join(others)}"))
    lacking: set[str] = set()
    for suffix, values in reduced.items():
        name = metric + suffix
        for sample, raw in by_sample.items():
            place, numbers = f"sample {sample}", [convert(value) for value in raw]
            grades = [value for value in numbers if isinstance(value, str)]
            known = [v for v in numbers if isinstance(v, int | float) and v == v]
            value = convert(values.get(sample))
            if grades:
                log.skipped.setdefault(name, {})[sample] = Skipped(grades[0], place)
                continue
            if not suffix and known and (not isinstance(value, int | float) or value != value):
                value = sum(known) / len(known)
            if 0 < len(known) < len(raw):
                lacking.add(sample)
            log.add(name, sample, value, place)
    if lacking:
        kind = "samples without a number in some epochs, so that the other epochs count"
        log.remarks.append((kind, f"{len(lacking)} of {log.file}, {metric}"))


def _reduce(content: Any, metric: str) -> dict[str, dict[str, Any]]:
    """Returns what the log's own reducers made of the epochs of a metric: by what the reducer adds
    to the metric's name, and by sample.
    """
    scorer, _, part = metric.partition(",")
    reduced = {}
    for each in content.reductions or []:
        if each.scorer == scorer:
            suffix = "" if each.reducer in (None, "mean") else f",{each.reducer}"
            reduced[suffix] = {
                str(sample.sample_id): sample.value.get(part)
                if isinstance(sample.value, dict)
                else sample.value
                for sample in each.samples
            }
    return reduced


def _add_reported(log: Log, content: Any) -> None:
    """Adds the means that the log itself reports."""
    for score in content.results.scores if content.results else []:
        name = score.scorer if score.name == score.scorer else f"{score.scorer},{score.name}"
        name += "" if score.reducer in (None, "mean") else f",{score.reducer}"
        by_name = {key.rpartition("/")[2]: metric.value for key, metric in score.metrics.items()}
        value = next((by_name[each] for each in _MEAN_METRICS if each in by_name), None)
        if value is not None:
            log.reported[name] = Reported(value, getattr(score, "scored_samples", None))


def _drop_message_ids(content: Any) -> Any:
    """Returns the input of a sample without the messages' ids, which are drawn at random."""
    if isinstance(content, str):
        return content
    parts = {"type", "text", "image", "audio", "video"}
    return [
        [
            message.role,
            message.content
            if isinstance(message.content, str)
            else [part.model_dump(include=parts) for part in message.content],
        ]
        for message in content
    ]


def _is_grade(text: str) -> bool:
    """Returns whether inspect_ai takes a text for a number; it takes any other for 0."""
    try:
        return text in _GRADES or text.lower() in _TRUTHS or math.isfinite(float(text))
    except ValueError:
        return False


def _list_scores(scores: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yields the name and value of each score; a scorer with several values has SCORER,VALUE."""
    for scorer, score in scores.items():
        if isinstance(score.value, dict):
            yield from ((f"{scorer},{name}", value) for name, value in score.value.items())
        else:
            yield scorer, score.value


FORMAT = Format("inspect_ai", "*.eval or DATE_TASK_ID.json", _NAME, read)
