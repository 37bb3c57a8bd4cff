"""Reads per-sample logs of lmms-eval, DATE_samples_TASK.jsonl beside DATE_results.json, which are
those of lm-evaluation-harness but for their names and values.

A value may be an object with facts about the sample beside its score: METRIC,PART is read of it,
for the parts that are scores by their name. Follows the package's source; of real files only the
layout of objects was seen.
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from nevis_stream.evaluation_cache.importers import harness
from nevis_stream.evaluation_cache.importers.record import Context, Format, Log, json_lines

SAMPLES = re.compile(r"^(?P<date>\d{8}_\d{6})_samples_(?P<task>.+)\.jsonl$")
_OTHERS = harness.OTHER_KEYS | {"input", "submission"}
_SCORES = ("score", "correct", "is_correct", "acc", "accuracy", "exact_match")


def read(path: Path, context: Context) -> list[Log]:
    """Reads a log.

    Raises:
      BadInput: it cannot be read; the message names file and line.
    """
    match = SAMPLES.search(path.name)
    assert match
    run = context.json_object(path.with_name(f"{match['date']}_results.json"))
    model = str(run.get("model_name") or path.resolve().parent.name.replace("__", "/"))
    log = Log(path, model, match["task"], match["date"], grades=context.grades)
    harness.add_samples(log, _flat(json_lines(log)))
    harness.describe(log, run)
    return [log]


def _flat(lines: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """Yields lines in which each score is a value of its own, and `metrics` names them."""
    for place, line in lines:
        if not isinstance(line, dict):
            yield place, line
            continue
        values: dict[str, Any] = {}
        for name, value in line.items():
            if name in _OTHERS:
                continue
            if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
                value = value[0]
            parts = [each for each in _SCORES if isinstance(value, dict) and each in value]
            values |= {f"{name},{each}": value[each] for each in parts} or {name: value}
        kept = {name: value for name, value in line.items() if name in _OTHERS}
        yield place, kept | values | {"metrics": list(values)}


FORMAT = Format(
    "lmms-eval",
    "DATE_samples_TASK.jsonl",
    SAMPLES,
    read,
)
