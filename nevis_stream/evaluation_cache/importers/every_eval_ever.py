"""Reads sample-level files of every_eval_ever, *.jsonl of its schema instance_level_eval.

Every line states its model and evaluation, so that a file may have several. Direction and range
stand in the aggregate file of the same name, where there is one. Since version 0.2.2 a sample has a
line for each result, with its id, where an evaluation has several: each is a metric, METRIC,ID.
Follows the package's schema, versions 0.2.1 and 0.2.2, and its fixtures.
"""

from pathlib import Path
from typing import Any

from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache.importers.record import (
    JSONL,
    Format,
    Log,
    SharedFiles,
    get_object,
    read_beginning,
    read_json_lines,
)

_REQUIRED = ("model_id", "evaluation_name", "sample_id", "evaluation")
_METRICS = ("score", "is_correct")
_RESULT = "evaluation_result_id"


def is_one(path: Path) -> bool:
    """Returns whether a file is one of these, by its first line."""
    first = read_beginning(path).partition("\n")[0]
    return first.startswith("{") and all(f'"{name}"' in first for name in _REQUIRED)


def read(path: Path, shared: SharedFiles) -> list[Log]:
    """Reads the samples of a file.

    Raises:
      BadInput: a line is not of the schema; the message names it.
    """
    logs: dict[tuple[str, str], Log] = {}
    several_results = _find_several_results(path)
    whole_file = Log(path, "", "", "")
    for place, line in read_json_lines(whole_file):
        missing = [name for name in _REQUIRED if not isinstance(line, dict) or name not in line]
        if missing:
            raise BadInput(f"{path}, {place}: has no `{missing[0]}`, so it is not a sample.")
        key = str(line["model_id"]), str(line["evaluation_name"])
        log = logs.setdefault(key, Log(path, *key, "", grades=shared.grades))
        sample, values = str(line["sample_id"]), get_object(line, "evaluation")
        if line.get("error"):
            log.failed[sample] = place
        else:
            for name in _METRICS:
                if values.get(name) is not None:
                    metric = f"{name},{line.get(_RESULT)}" if key in several_results else name
                    log.add(metric, sample, values[name], place)
        log.add_price("tokens", sample, get_object(line, "token_usage").get("total_tokens"))
        log.add_price(
            "seconds", sample, get_object(line, "performance").get("latency_ms"), per=1000
        )
        if line.get("sample_hash"):
            log.add_hash(sample, str(line["sample_hash"]), place, "`sample_hash`")
    aggregate = path.with_name(f"{path.stem.removesuffix('_samples')}.json")
    results = shared.read_object(aggregate).get("evaluation_results")
    for log in logs.values():
        log.truncation = whole_file.truncation
        _add_direction_and_range(log, results if isinstance(results, list) else [])
    return list(logs.values())


def _find_several_results(path: Path) -> set[tuple[str, str]]:
    """Returns the models and evaluations of which a file has several results."""
    if f'"{_RESULT}"' not in read_beginning(path):
        return set()
    found: dict[tuple[str, str], set[str]] = {}
    for _, line in read_json_lines(Log(path, "", "", "")):
        if isinstance(line, dict):
            key = str(line.get("model_id")), str(line.get("evaluation_name"))
            found.setdefault(key, set()).add(str(line.get(_RESULT)))
    return {key for key, results in found.items() if len(results) > 1}


def _add_direction_and_range(log: Log, results: list[Any]) -> None:
    """Adds direction and range of the scores, which the results of the aggregate file state."""
    for each in results:
        if isinstance(each, dict) and each.get("evaluation_name") == log.task:
            own = f"score,{each.get(_RESULT)}"
            name = own if own in log.values else "score"
            config = get_object(each, "metric_config")
            if isinstance(lower := config.get("lower_is_better"), bool):
                log.higher_is_better[name] = not lower
            ends = config.get("min_score"), config.get("max_score")
            low, high = (end if isinstance(end, int | float) else None for end in ends)
            if low is not None and high is not None and low < high and (low, high) != (0, 1):
                log.ranges[name] = float(low), float(high)


FORMAT = Format("every_eval_ever", "*.jsonl of samples", JSONL, read, is_one)
