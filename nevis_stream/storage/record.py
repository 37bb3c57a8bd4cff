"""JSON that is kept in files: its canonical text, and the checks of its values; records, a frozen
dataclass for each kind of object; logs of lines; and files that identify their directory.

A check returns the value or raises `ValueError`. A field's annotation determines which values are
valid (`check_of`). A field whose default is None is left out of the object when it is None.

In a log with checksums, a changed, missing or moved line is noticed. The two last keys of a line
are `after`, the checksum of the line before it, and `check`, the checksum of all in the line before
that key. After lines of earlier versions, which have neither key, and in a new file, the first
`after` is a checksum of all that the file had.
"""

import contextlib
import dataclasses
import functools
import hashlib
import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, BinaryIO, Self, Union, get_args, get_origin

from nevis_stream.errors import BadInput, unknown
from nevis_stream.storage import append_line, write_file
from nevis_stream.storage.reading import parse_json, read_bytes


def encode(values: Mapping[str, Any]) -> str:
    """Returns the canonical line of a JSON object: sorted keys, no spaces; see `check_json`."""
    return _dump(values, separators=(",", ":"))


def _dump(values: Mapping[str, Any], **layout: Any) -> str:
    try:
        return json.dumps(values, sort_keys=True, allow_nan=False, **layout)
    except (TypeError, ValueError):
        check_json(values)
        raise


def check_json(value: Any, place: str = "") -> None:
    """Refuses what JSON does not have.

    Args:
      value: of which JSON is to be made.
      place: what a message calls it.

    Raises:
      BadInput: a number that is infinite or NaN, or an object; the message names its place.
    """
    inside = value if isinstance(value, Mapping) else {}
    is_kept = value is None or isinstance(value, Mapping | list | tuple | str | int | float)
    if not is_kept or isinstance(value, float) and not math.isfinite(value):
        raise BadInput(
            f"{place} is {show_value(value)}, which no JSON file keeps. Valid: finite numbers,"
            " texts, True, False, None, and lists and dicts of these."
        )
    if isinstance(value, list | tuple):
        inside = dict(enumerate(value))
    for key, each in inside.items():
        check_json(each, f"{place}.{key}" if place else str(key))


Check = Callable[[Any], Any]

LARGEST_COUNT = 10**15
_LONGEST_TEXT = 1000


def check_string(value: Any) -> str:
    """A string of any length, like the ids of models."""
    if not isinstance(value, str):
        raise ValueError(f"is {show_value(value)}, not a string")
    return value


def check_flag(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError(f"is {show_value(value)}, not true or false")
    return value


def check_text(value: Any) -> str:
    """A string of at most 1,000 characters."""
    if len(check_string(value)) > _LONGEST_TEXT:
        raise ValueError(f"has {len(value)} characters; at most {_LONGEST_TEXT} are valid")
    return value


def check_whole(low: int = 0, high: int = LARGEST_COUNT) -> Check:
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


def check_choice(name: str, valid: Collection[str]) -> Check:
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


def check_object(value: Any) -> Mapping[str, Any]:
    """A JSON object."""
    if not isinstance(value, dict):
        raise ValueError(f"is {show_value(value)}, not an object")
    return value


def check_several(read: Callable[[Mapping[str, Any]], Any]) -> Check:
    """A list of JSON objects, each read by `read`."""

    def check(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise ValueError(f"is {show_value(value)}, not a list")
        records = []
        for place, each in enumerate(value):
            try:
                records.append(read(check_object(each)))
            except ValueError as error:
                raise ValueError(f"[{place}] {error}") from None
        return tuple(records)

    return check


_BY_TYPE: dict[Any, Check] = {
    bool: check_flag,
    int: check_whole(),
    str: check_text,
    Mapping: check_object,
}


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
        return check_several(arguments[0].from_json)
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


AFTER, CHECK = "after", "check"
_DIGITS = 16


@dataclass(frozen=True)
class CheckedLine:
    """A line of a log with checksums.

    Attributes:
      number: from 1.
      values: what it says, without the checksums; None if it is not JSON.
      problem: what is wrong with it, or "".
      checked: whether it has a checksum; lines of earlier versions have none.
    """

    number: int
    values: Any
    problem: str
    checked: bool


def append_checked(
    file: Path, values: Mapping[str, Any], once: Collection[str] | None = None
) -> None:
    """Appends one line with its checksums and syncs it; several processes may append.

    Args:
      file: the log, which may be missing.
      values: what the line says.
      once: nothing is appended if a line already says the same, but for the values of these names;
        None: it is always appended.

    Raises:
      StorageFull: the line could not be written; the file is as before.
    """

    def line(log: BinaryIO, size: int) -> str | None:
        log.seek(max(size - _TAIL - 1, 0))
        end = _check_of(log.read(size)[:-1])
        if end and once is None:
            return _line(values, end)
        log.seek(0)
        before = log.read(size)
        if once is not None and _says(before, values, {AFTER, CHECK, *once}):
            return None
        return _line(values, end or _digest(before))

    append_line(file, line)


def check_content(lines: Iterable[Mapping[str, Any]]) -> bytes:
    """Returns the content of a file of these lines."""
    result, end = [], _digest(b"")
    for values in lines:
        line = _line(values, end)
        result.append(line + "\n")
        end = _check_of(line.encode())
    return "".join(result).encode()


@dataclass(frozen=True)
class _Place:
    """Where a reading of a log has ended.

    Attributes:
      size: bytes that were read, with what may follow the last whole line.
      end: the offset after this line.
      number: of the line.
      last: the line, with its newline.
      checked: whether it has a checksum.
      content: digest of the file to here.
    """

    size: int = 0
    end: int = 0
    number: int = 0
    last: bytes = b""
    checked: bool = False
    content: Any = dataclasses.field(default_factory=hashlib.sha256)


_NEVER_READ = -2, -2, -2


class LogReader:
    """Reads a log on from where the last reading has ended, so that a line is read once.

    Args:
      file: the log, which may be missing; this and other processes append to it.
    """

    def __init__(self, file: Path):
        self.file = file
        self.restart()

    def restart(self) -> None:
        """Has the next reading begin with the first line."""
        self._state, self._place = _NEVER_READ, _Place()

    def read(self) -> tuple[list[CheckedLine], bool]:
        """Returns the whole lines that were not read before, and whether they begin with the first
        one: at first, and where the file has changed otherwise than by more lines. What a kill left
        of the last line is not counted.

        A line that looks damaged may be half of one that another process appends: it is read again
        when that is done. One that is damaged is returned again by the next reading.
        """
        state = _get_state(self.file)
        if state == self._state:
            return [], False
        lines, place, anew = self._read_on(locked=False)
        if any(line.problem for line in lines):
            lines, place, anew = self._read_on(locked=True)
        after = _get_state(self.file)
        is_all = after[::2] == (place.size, state[2])  # else it has grown meanwhile
        self._state, self._place = after if is_all else _NEVER_READ, place
        if any(line.problem for line in lines):
            self.restart()
        return lines, anew

    def _read_on(self, locked: bool) -> tuple[list[CheckedLine], _Place, bool]:
        def read(start: int) -> bytes:
            return read_bytes(self.file, start=start, locked=locked) if self.file.exists() else b""

        place = self._place
        data = read(start := place.end - len(place.last))
        anew = not place.last or len(data) <= len(place.last) or not data.startswith(place.last)
        if anew:
            data = read(0) if start else data
            start, place = 0, _Place()
        lines = list[CheckedLine]()
        content, last, checked = place.content.copy(), place.last, place.checked
        before = _check_of(last[:-1])
        for text in data[len(last) :].split(b"\n")[:-1]:
            try:
                values, problem = parse_json(text.decode()), ""
            except ValueError as error:
                values, problem = None, str(error)
            was_checked = checked
            checked = isinstance(values, dict) and not values.keys().isdisjoint((AFTER, CHECK))
            if checked:
                check, after = values.pop(CHECK, None), values.pop(AFTER, None)
                if not was_checked:
                    before = _shorten(content)
                if check != _digest(_content(text)) or check != _check_of(text):
                    problem = "it has changed since it was written"
                elif after != before:
                    problem = "a line before it has changed, is missing or was somewhere else"
                before = check
            elif was_checked and not problem:
                problem = "it has no checksum, unlike the line before it"
            last = text + b"\n"
            content.update(last)
            lines.append(CheckedLine(place.number + len(lines) + 1, values, problem, checked))
        end, number = start + data.rfind(b"\n") + 1, place.number + len(lines)
        return lines, _Place(start + len(data), end, number, last, checked, content), anew


def _get_state(file: Path) -> tuple[int, int, int]:
    """Returns size in bytes, time of change in ns and number of a file; they differ when a log has
    grown.
    """
    try:
        about = file.stat()
    except FileNotFoundError:
        return -1, -1, -1
    return about.st_size, about.st_mtime_ns, about.st_ino


def read_checked(file: Path) -> list[CheckedLine]:
    """Returns the whole lines of a file, which may be missing; see `LogReader`."""
    return LogReader(file).read()[0]


def _says(content: bytes, values: Mapping[str, Any], ignored: Collection[str]) -> bool:
    """Returns whether a line of a log says the same as `values`, but for the ignored names."""

    def told(said: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in said.items() if name not in ignored}

    for text in content.splitlines():
        with contextlib.suppress(ValueError):
            said = parse_json(text)
            if isinstance(said, dict) and told(said) == told(values):
                return True
    return False


def _line(values: Mapping[str, Any], end: str) -> str:
    """Returns a line after one with the checksum `end`."""
    text = encode(values)
    text = f'{text[:-1]}{"," if values else ""}"{AFTER}":"{end}"'
    return f'{text},"{CHECK}":"{_digest(text.encode())}"}}'


_TAIL = len(f',"{CHECK}":""}}') + _DIGITS


def _content(line: bytes) -> bytes:
    return line[:-_TAIL]


def _check_of(line: bytes) -> str:
    """Returns the checksum that a line states, "" if there is none."""
    tail = line[-_TAIL:].decode(errors="replace")
    digits = tail[-_DIGITS - 2 : -2]
    return digits if tail == f',"{CHECK}":"{digits}"}}' and len(digits) == _DIGITS else ""


def _digest(data: bytes) -> str:
    return _shorten(hashlib.sha256(data))


def _shorten(digest: "hashlib._Hash") -> str:
    return digest.hexdigest()[:_DIGITS]


def as_lines(values: Mapping[str, Any]) -> str:
    """Returns JSON values as text with one value per line, independent of their order."""
    return _dump(values, indent=1)


def seal(content: str) -> str:
    """Returns the text of a JSON object with a checksum of all else in it."""
    return as_lines(parse_json(content) | {CHECK: _digest(content.encode())})


def unseal(values: Any) -> tuple[dict[str, Any], bool]:
    """Returns the JSON object of a file without its checksum, and whether it had one, which files
    of earlier versions have not.

    Raises:
      ValueError: it is no object, or has changed since it was written.
    """
    values = dict(check_object(values))
    check = values.pop(CHECK, None)
    if check not in (None, _digest(as_lines(values).encode())):
        raise ValueError("it has changed since it was written")
    return values, check is not None


def write_once(file: Path, content: str, refusal: str) -> None:
    """Writes a file, or leaves it if it already has this content.

    Args:
      file: identifies the content of its directory.
      content: what it must contain.
      refusal: error message if it has other content; contains "{difference}" and says what the user
        can do.

    Raises:
      BadInput: it has other content; the message names the first difference.
    """
    if not file.exists():
        write_file(file, content.encode())
    else:
        refuse_other(file, read_bytes(file).decode(errors="replace"), content, refusal)


def refuse_other(file: Path, found: str, wanted: str, refusal: str) -> None:
    """Raises `BadInput` if two texts differ; the message names the first value that does, or says
    that a .json file cannot be read.

    Args:
      file: for the message.
      found, wanted: content of the file, and what it should be.
      refusal: see `write_once`.
    """
    if found == wanted:
        return
    if file.suffix == ".json":
        try:
            parse_json(found)
        except ValueError as error:
            raise BadInput(f"{file}: cannot be read ({error}).") from None
    raise BadInput(f"{file}: {refusal.format(difference=_difference(found, wanted))}")


def _difference(old: str, new: str) -> str:
    """Names the first value in which two JSON texts differ, or the first line if one is not JSON.

    Numbers that are equal but written differently, such as 0 and 0.0, are named only if nothing
    else differs.
    """
    try:
        before, after = (dict(_leaves(parse_json(text))) for text in (old, new))
    except ValueError:
        before, after = (
            {f"line {i}": line for i, line in enumerate(text.splitlines(), start=1)}
            for text in (old, new)
        )
    pairs = [(key, before.get(key), after.get(key)) for key in after | before]
    differing = [pair for pair in pairs if pair[1] != pair[2]] or [
        pair for pair in pairs if str(pair[1]) != str(pair[2])
    ]
    if not differing:
        return "the same values in another order or form"
    key, *values = differing[0]
    shown = (json.dumps(each, ensure_ascii=False) for each in values)
    return "{}: there {}, now {}".format(key, *shown)


def _leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yields (dotted key, value); a list is one value."""
    if not isinstance(value, dict):
        yield key, value
        return
    for name, inner in value.items():
        yield from _leaves(inner, f"{key}.{name}" if key else name)
