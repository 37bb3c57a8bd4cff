"""Names of the workers of a session that live as long as the process that holds them."""

import contextlib
import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from nevis_stream.storage.reading import lock, open_file

_FOLDER = "workers"
_HELD = re.compile(r"process-\d+-[0-9a-f]{8}")


@contextlib.contextmanager
def hold_name(directory: Path) -> Iterator[str]:
    """Holds a new name. The system gives it back when the process ends, in whatever way; then
    others take over what was handed to it.
    """
    name = f"process-{os.getpid()}-{secrets.token_hex(4)}"
    path = directory / _FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "x") as file:
        lock(file, path, fcntl.LOCK_EX)
        try:
            yield name
        finally:
            path.unlink(missing_ok=True)


def is_gone(directory: Path, name: str) -> bool:
    """Returns whether a name that a process held is free; one that a user gave never is."""
    if not _HELD.fullmatch(name):
        return False
    path = directory / _FOLDER / name
    try:
        with open_file(path) as file:
            lock(file, path, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except BlockingIOError:
        return False
    return True
