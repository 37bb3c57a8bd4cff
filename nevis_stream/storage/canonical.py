"""JSON as canonical text, the same for the same values."""

import json
from collections.abc import Mapping
from typing import Any


def encode(values: Mapping[str, Any]) -> str:
    """Returns the canonical line of a JSON object: sorted keys, no spaces, no NaN."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)
