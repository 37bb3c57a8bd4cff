"""Logs of JSON lines in which a changed, missing or moved line is noticed.

The two last keys of a line are `after`, the checksum of the line before it, and `check`, the
checksum of all in the line before that key. After lines of earlier versions, which have neither
key, and in a new file, the first `after` is a checksum of all that the file had.
"""

import contextlib
import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nevis_stream.storage import append_line
from nevis_stream.storage.reading import parse_json, read_bytes
from nevis_stream.storage.record import encode

AFTER, CHECK = "after", "check"
_DIGITS = 16


@dataclass(frozen=True)
class Line:
    """A line of a log.

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


def append(file: Path, values: Mapping[str, Any], once: Collection[str] | None = None) -> None:
    """Appends one line and syncs it; several processes may append.

    Args:
      file: the log, which may be missing.
      values: what the line says.
      once: nothing is appended if a line already says the same, but for the values of these names;
        None: it is always appended.

    Raises:
      StorageFull: the line could not be written; the file is as before.
    """
    ignored = {AFTER, CHECK, *(once or ())}

    def line(before: bytes) -> str | None:
        there = once is not None and _says(before, values, ignored)
        return None if there else _line(values, _end(before))

    append_line(file, line)


def content(lines: Iterable[Mapping[str, Any]]) -> bytes:
    """Returns the content of a file of these lines."""
    result, end = [], _digest(b"")
    for values in lines:
        line = _line(values, end)
        result.append(line + "\n")
        end = _check_of(line.encode())
    return "".join(result).encode()


def read(file: Path) -> list[Line]:
    """Returns the whole lines of a file, which may be missing; what a kill left of the last one is
    not counted.
    """
    data = read_bytes(file) if file.exists() else b""
    data = data[: data.rfind(b"\n") + 1]
    lines: list[Line] = []
    start, before = 0, _digest(b"")
    while start < len(data):
        end = data.index(b"\n", start)
        text, number = data[start:end], len(lines) + 1
        try:
            values, problem = parse_json(text.decode()), ""
        except ValueError as error:
            values, problem = None, str(error)
        checked = isinstance(values, dict) and not values.keys().isdisjoint((AFTER, CHECK))
        if checked:
            check, after = values.pop(CHECK, None), values.pop(AFTER, None)
            if not lines or not lines[-1].checked:
                before = _digest(data[:start])
            if check != _digest(_content(text)) or check != _check_of(text):
                problem = "it has changed since it was written"
            elif after != before:
                problem = "a line before it has changed, is missing or was somewhere else"
            before = check
        elif lines and lines[-1].checked and not problem:
            problem = "it has no checksum, unlike the line before it"
        lines.append(Line(number, values, problem, checked))
        start = end + 1
    return lines


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


def _end(before: bytes) -> str:
    """Returns the checksum that the next line names, after these whole lines."""
    last = before[before.rfind(b"\n", 0, -1) + 1 : -1]
    return _check_of(last) or _digest(before)


_TAIL = len(f',"{CHECK}":""}}') + _DIGITS


def _content(line: bytes) -> bytes:
    return line[:-_TAIL]


def _check_of(line: bytes) -> str:
    """Returns the checksum that a line states, "" if there is none."""
    tail = line[-_TAIL:].decode(errors="replace")
    digits = tail[-_DIGITS - 2 : -2]
    return digits if tail == f',"{CHECK}":"{digits}"}}' and len(digits) == _DIGITS else ""


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_DIGITS]
