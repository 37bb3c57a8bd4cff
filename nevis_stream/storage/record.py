"""Records: a frozen dataclass for each kind of JSON object in a file, checked when it is read; the
checks of JSON values; and the canonical text of JSON.

A check returns the value or raises `ValueError`. A field's annotation determines which values are
valid (`check_of`). A field whose default is None is left out of the object when it is None.
"""

import dataclasses
import functools
import json
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Self, Union, get_args, get_origin

from nevis_stream.errors import unknown


def encode(values: Mapping[str, Any]) -> str:
    """Returns the canonical line of a JSON object: sorted keys, no spaces, no NaN."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)


Check = Callable[[Any], Any]

LARGEST_COUNT = 10**15
_LONGEST_TEXT = 1000


def string(value: Any) -> str:
    """A string of any length, like the ids of models."""
    if not isinstance(value, str):
        raise ValueError(f"is {show_value(value)}, not a string")
    return value


def flag(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError(f"is {show_value(value)}, not true or false")
    return value


def text(value: Any) -> str:
    """A string of at most 1,000 characters."""
    if len(string(value)) > _LONGEST_TEXT:
        raise ValueError(f"has {len(value)} characters; at most {_LONGEST_TEXT} are valid")
    return value


def whole(low: int = 0, high: int = LARGEST_COUNT) -> Check:
    """A whole number from `low` to `high`."""

    def check(value: Any) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"is {show_value(value)}, not a whole number")
        if not low <= value <= high:
            raise ValueError(f"is {show_value(value)}; valid: {low} to {high}")
        return value

    return check


def number(low: float, high: float) -> Check:
    """A finite number from `low` to `high`."""

    def check(value: Any) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise ValueError(f"is {show_value(value)}, not a number")
        if math.isnan(value) or not low <= value <= high:
            raise ValueError(f"is {show_value(value)}; valid: {low:g} to {high:g}")
        return value

    return check


def choice(name: str, valid: Collection[str]) -> Check:
    """One of the valid words."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in valid:
            raise ValueError(
                f"is not valid: {unknown(name, show_value(value, quotes=False), valid)}"
            )
        return value

    return check


def check_unicode(values: object) -> None:
    """Raises ValueError if a string contains half of a surrogate pair, which no file can
    contain.
    """
    try:
        json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"it is not valid Unicode: {error.reason}") from None


def json_object(value: Any) -> Mapping[str, Any]:
    """A JSON object."""
    if not isinstance(value, dict):
        raise ValueError(f"is {show_value(value)}, not an object")
    return value


def several(read: Callable[[Mapping[str, Any]], Any]) -> Check:
    """A list of JSON objects, each read by `read`."""

    def check(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise ValueError(f"is {show_value(value)}, not a list")
        records = []
        for place, each in enumerate(value):
            try:
                records.append(read(json_object(each)))
            except ValueError as error:
                raise ValueError(f"[{place}] {error}") from None
        return tuple(records)

    return check


_BY_TYPE: dict[Any, Check] = {bool: flag, int: whole(), str: text, Mapping: json_object}


@functools.cache
def check_of(annotation: Any) -> Check:
    """Returns the check of a field: that in `Annotated`, else that of its type."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return arguments[1]
    if origin in (Union, UnionType):  # with None
        check = check_of(arguments[0])
        return lambda value: None if value is None else check(value)
    if origin is tuple:
        return several(arguments[0].from_json)
    return _BY_TYPE[origin or annotation]


def show_value(value: Any, quotes: bool = True) -> str:
    """A value as an error message shows it, shortened if it is long."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**18:
        return f"a number of {len(str(abs(value)))} digits"
    whole_text = repr(value) if quotes else str(value)
    return whole_text if len(whole_text) <= 60 else whole_text[:57] + "..."


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
