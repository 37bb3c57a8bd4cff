"""Records: a frozen dataclass for each kind of JSON object in a file, checked when it is read.

A field's annotation determines which values are valid (`checks.check_of`). A field whose default is
None is left out of the object when it is None.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from nevis_stream.storage.checks import check_of


@dataclass(frozen=True, kw_only=True)
class Record:
    """What all records have in common."""

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Returns the record of a JSON object; unknown fields are ignored.

        Raises:
          ValueError: a field is missing or its value is not valid; the message names it.
        """
        read = {}
        for field in dataclasses.fields(cls):
            if field.name in values:
                annotation: Any = field.type
                try:
                    read[field.name] = check_of(annotation)(values[field.name])
                except ValueError as error:
                    raise ValueError(f"{field.name} {error}") from None
            elif field.default is not None:
                raise ValueError(f"{field.name} is missing")
        return cls(**read)

    def to_json(self) -> dict[str, Any]:
        """Returns the JSON object of the record."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        optional = {field.name for field in dataclasses.fields(self) if field.default is None}
        kind = {"kind": self.kind} if hasattr(self, "kind") else {}
        return kind | {
            name: _to_json(value)
            for name, value in values.items()
            if not (name in optional and value is None)
        }


def _to_json(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_json()
    return [_to_json(each) for each in value] if isinstance(value, tuple) else value
