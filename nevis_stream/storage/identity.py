"""Files that say what a directory or a file holds, so that no other command writes into it."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nevis_stream.errors import BadInput
from nevis_stream.storage import write_file
from nevis_stream.storage.canonical import encode


def text(values: Mapping[str, Any]) -> str:
    """Returns JSON values as text with a value a line, the same whatever their order."""
    return json.dumps(json.loads(encode(values)), indent=1)


def write_once(file: Path, content: str, refusal: str) -> None:
    """Writes a file, or leaves it where it says the same.

    Args:
      file: says what its directory holds.
      content: what it must contain.
      refusal: what is wrong where it says something else, with a place for the "{difference}", and
        what may be done.

    Raises:
      BadInput: it says something else; the message names the first difference.
    """
    if not file.exists():
        write_file(file, content.encode())
    else:
        refuse_other(file, file.read_bytes().decode(errors="replace"), content, refusal)


def refuse_other(file: Path, there: str, now: str, refusal: str) -> None:
    """Raises `BadInput` where two texts differ; see `write_once`.

    The message names the first value in which they do.
    """
    if there != now:
        raise BadInput(f"{file}: {refusal.format(difference=_difference(there, now))}")


def _difference(old: str, new: str) -> str:
    """Names the first value in which two JSON texts differ.

    The first line where one of them is no JSON.

    Numbers that are equal but written otherwise, as 0 and 0.0, are named where nothing else
    differs.
    """
    try:
        before, after = (dict(_leaves(json.loads(text))) for text in (old, new))
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
    key, there, now = differing[0]
    return f"{key}: there {json.dumps(there)}, now {json.dumps(now)}"


def _leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yields (dotted key, value); a list is one value."""
    if not isinstance(value, dict):
        yield key, value
        return
    for name, inner in value.items():
        yield from _leaves(inner, f"{key}.{name}" if key else name)
