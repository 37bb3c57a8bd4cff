"""A learner's configuration as JSON, where a run was given none, and in what two configurations differ."""

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from nevis_stream.errors import BadInput
from nevis_stream.learner import Learner


def describe(learner: Learner) -> dict[str, Any]:
    """Returns a JSON description of a learner that was given without a config; arrays stand as their sha256."""

    def describe(value: Any) -> str:
        if hasattr(value, "__array__"):
            array = np.ascontiguousarray(value)
            return f"{array.dtype}{list(array.shape)} sha256 {hashlib.sha256(array.tobytes()).hexdigest()}"
        raise BadInput(
            f"learner {type(learner).__name__}: an attribute of type {type(value).__name__} has no JSON description, so the "
            "run could not be told from others. Give run(…, config={…}) with the values that matter."
        )

    values = dataclasses.asdict(learner) if dataclasses.is_dataclass(learner) else dict(vars(learner))
    return {"learner": type(learner).__name__, "options": json.loads(json.dumps(values, default=describe))}


def difference(old: str, new: str) -> str:
    """Names the first value in which two JSON texts differ, or the first line where one of them is no JSON.

    Numbers that are equal but written otherwise, as 0 and 0.0, are named where nothing else differs.
    """
    try:
        before, after = (dict(_leaves(json.loads(text))) for text in (old, new))
    except ValueError:
        before, after = ({f"line {i}": line for i, line in enumerate(text.splitlines(), start=1)} for text in (old, new))
    pairs = [(key, before.get(key), after.get(key)) for key in after | before]
    found = [pair for pair in pairs if pair[1] != pair[2]] or [pair for pair in pairs if str(pair[1]) != str(pair[2])]
    if not found:
        return "the same values in another order or form"
    key, there, now = found[0]
    return f"{key}: there {json.dumps(there)}, now {json.dumps(now)}"


def _leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yields (dotted key, value); a list is one value."""
    if not isinstance(value, dict):
        yield key, value
        return
    for name, inner in value.items():
        yield from _leaves(inner, f"{key}.{name}" if key else name)
