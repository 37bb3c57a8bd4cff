"""A learner's attributes as JSON, for runs without a config."""

import dataclasses
import hashlib
import json
from typing import Any

import numpy as np

from nevis_stream.errors import BadInput


def describe(learner: Any) -> dict[str, Any]:
    """Returns a JSON description of a learner's attributes, with the sha256 of arrays."""

    def as_text(value: Any) -> str:
        if hasattr(value, "__array__"):
            array = np.ascontiguousarray(value)
            return (
                f"{array.dtype}{list(array.shape)} sha256"
                f" {hashlib.sha256(array.tobytes()).hexdigest()}"
            )
        raise BadInput(
            f"learner {type(learner).__name__}: an attribute of type {type(value).__name__} cannot"
            " be written as JSON, so runs with different values would look the same. Pass the"
            " values that matter as run(…, config={…})."
        )

    values = (
        dataclasses.asdict(learner) if dataclasses.is_dataclass(learner) else dict(vars(learner))
    )
    return {
        "learner": type(learner).__name__,
        "options": json.loads(json.dumps(values, default=as_text)),
    }
