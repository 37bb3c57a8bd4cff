"""Files that say what a directory or a file holds, so that another command does not write into it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nevis_stream.errors import BadInput
from nevis_stream.ledger import encode
from nevis_stream.storage import write_file


def text(values: Mapping[str, Any]) -> str:
    """Returns JSON values as text with a value a line, the same whatever their order."""
    return json.dumps(json.loads(encode(values)), indent=1)


def write_once(file: Path, content: str, refusal: str) -> None:
    """Writes a file, or leaves it where it says the same.

    Args:
      file: says what its directory holds.
      content: what it is to say.
      refusal: what is wrong where it says something else, with a place for the "{difference}", and what may be done.

    Raises:
      BadInput: it says something else; the message names the first difference.
    """
    if not file.exists():
        write_file(file, content.encode())
    else:
        refuse_other(file, file.read_bytes().decode(errors="replace"), content, refusal)


def refuse_other(file: Path, there: str, now: str, refusal: str) -> None:
    """Raises `BadInput` where two texts differ, naming the first line in which they do; see `write_once`."""
    if there != now:
        raise BadInput(f"{file}: {refusal.format(difference=_difference(there, now))}")


def _difference(there: str, now: str) -> str:
    for before, after in zip(there.splitlines(), now.splitlines(), strict=False):
        if before != after:
            return f"there: {before.strip().rstrip(',')}; now: {after.strip().rstrip(',')}"
    return "one has more lines than the other"
