"""Files that identify what a directory contains, so that no other command writes into it."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nevis_stream.errors import BadInput
from nevis_stream.storage import write_file
from nevis_stream.storage.reading import parse_json, read_bytes
from nevis_stream.storage.record import encode


def as_lines(values: Mapping[str, Any]) -> str:
    """Returns JSON values as text with one value per line, independent of their order."""
    return json.dumps(json.loads(encode(values)), indent=1)


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
