"""A learner's configuration as JSON, where a run was given none."""

import dataclasses
import hashlib
import json
from typing import Any

import numpy as np

from nevis_stream.errors import BadInput
from nevis_stream.learner import Learner


def describe(learner: Learner) -> dict[str, Any]:
    """Returns a JSON description of a learner without a config; of arrays, their sha256."""

    def as_text(value: Any) -> str:
        if hasattr(value, "__array__"):
            array = np.ascontiguousarray(value)
            return (
                f"{array.dtype}{list(array.shape)} sha256"
                f" {hashlib.sha256(array.tobytes()).hexdigest()}"
            )
        raise BadInput(
            f"learner {type(learner).__name__}: an attribute of type {type(value).__name__} has no"
            " JSON description, so runs with different values would look the same. Give run(…,"
            " config={…}) with the values that matter."
        )

    values = (
        dataclasses.asdict(learner) if dataclasses.is_dataclass(learner) else dict(vars(learner))
    )
    return {
        "learner": type(learner).__name__,
        "options": json.loads(json.dumps(values, default=as_text)),
    }
