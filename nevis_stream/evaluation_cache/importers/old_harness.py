"""Reads per-sample logs of lm-evaluation-harness 0.4.0 to 0.4.2: MODEL_ARGS_TASK.jsonl, which in
spite of its name is one JSON array, beside `results.json`.

The model's arguments are part of the name, with "__" for "/" and "=". Follows the source of
these versions; no real file of theirs was seen.
"""

import re
from pathlib import Path

from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache.importers import harness
from nevis_stream.evaluation_cache.importers.record import (
    JSONL,
    Context,
    Format,
    Log,
    begins_with,
    inner_object,
    json_array,
)

_RESULTS = "results.json"


def is_one(path: Path) -> bool:
    """Whether a file is such a log: a JSON array called .jsonl, beside the results."""
    return path.with_name(_RESULTS).is_file() and begins_with(path, 64).startswith("[")


def read(path: Path, context: Context) -> list[Log]:
    """Reads a log.

    Raises:
      BadInput: it cannot be read, or it is not clear of which task it is.
    """
    run = context.json_object(path.with_name(_RESULTS))
    arguments = str(inner_object(run, "config").get("model_args") or "")
    beginning = re.sub("/|=", "__", arguments) + "_"
    tasks = {*inner_object(run, "configs"), *inner_object(run, "results")}
    fitting = sorted((task for task in tasks if path.stem.endswith(f"_{task}")), key=len)
    if fitting:
        task = fitting[-1]
    elif path.stem.startswith(beginning):
        task = path.stem.removeprefix(beginning)
    else:
        raise BadInput(
            f"{path}: {_RESULTS} beside it has no task with which the name ends, and other"
            " arguments of the model, so it is of another run; move each run into a folder of its"
            " own."
        )
    values = harness.arguments_of(arguments)
    model = next((values[name] for name in harness.NAMES if name in values), arguments)
    model = model or path.stem.removesuffix(f"_{task}")
    # the results of these versions have no date, so that of two runs the path decides
    log = Log(path, model, task, str(run.get("date") or ""), grades=context.grades)
    harness.add_samples(log, json_array(log, context.json(path)))
    harness.describe(log, run)
    return [log]


FORMAT = Format(
    "lm-evaluation-harness 0.4.0 to 0.4.2",
    f"MODEL_ARGS_TASK.jsonl beside {_RESULTS}",
    JSONL,
    read,
    is_one,
)
