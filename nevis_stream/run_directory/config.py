"""config.json: every value that determines a run, its hash, and the version of its format.

Of a run without a config, the values are the attributes of its learner.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.errors import BadInput
from nevis_stream.run_directory import environment
from nevis_stream.storage.reading import read_json
from nevis_stream.storage.record import encode


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


FILE_NAME = "config.json"
SCHEMA = 2
"""Version 1 is a file without `schema`."""


@dataclass(frozen=True)
class RecordedConfig:
    """The content of a run's config.json.

    Attributes:
      schema: version of the format; 1 or `SCHEMA`.
      config_hash: 16 hex digits; empty if the file has none.
      values: the config: JSON values, by name.
    """

    schema: int
    config_hash: str
    values: Mapping[str, Any]

    def to_text(self) -> str:
        """Returns the text of the file. The hash is last, so that the first difference between two
        files is a value.
        """
        values = json.loads(encode(self.values))
        return json.dumps(
            {"schema": self.schema} | values | {"config_hash": self.config_hash}, indent=1
        )


def make_config(values: Mapping[str, Any]) -> RecordedConfig:
    """Returns the config that a new run records."""
    identity = encode(environment.identify(values))
    return RecordedConfig(SCHEMA, hashlib.sha256(identity.encode()).hexdigest()[:16], values)


def read_config(run_dir: Path) -> RecordedConfig:
    """Reads a run directory's config.json.

    Raises:
      BadInput: it is missing, cannot be read, is not a config, or was written by a newer version.
    """
    file = run_dir / FILE_NAME
    try:
        values = read_json(file)
    except FileNotFoundError:
        raise BadInput(f"{file}: missing") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"{file}: cannot be read ({error})") from None
    if not isinstance(values, dict):
        raise BadInput(f"{file}: not a JSON object")
    schema, config_hash = values.pop("schema", 1), values.pop("config_hash", "")
    if isinstance(schema, bool) or not isinstance(schema, int) or schema < 1:
        raise BadInput(f"{file}: schema is {schema!r}; valid: 1 to {SCHEMA}")
    if schema > SCHEMA:
        raise BadInput(
            f"{file}: written with schema {schema}; this version reads up to {SCHEMA}. Install a"
            " newer nevis_stream."
        )
    if not isinstance(config_hash, str):
        raise BadInput(f"{file}: config_hash is {config_hash!r}, not a string")
    return RecordedConfig(schema, config_hash, values)


def read_values(run_dir: Path) -> dict[str, Any]:
    """Returns the values of a run directory's config.json, without importing the learner.

    Raises:
      BadInput: it has no config of a run of launch.run, or one that cannot be read.
    """
    values: dict[str, Any] = {}
    if (run_dir / FILE_NAME).exists():
        values = dict(read_config(run_dir).values)
    if isinstance(values.get("learner"), str) and isinstance(values.get("stream"), str):
        return values
    raise BadInput(
        f"{run_dir}: not the directory of a run of launch.run (no config.json with a learner)."
    )
