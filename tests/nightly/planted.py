"""Finds the faults of four small writers: one that is right, and three with a planted fault.

python -m tests.nightly.planted FOLDER

Prints what is found, as JSON: for each writer the kinds of points with faults, and those faults.
"""

import functools
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from nevis_stream.errors import NevisStreamError
from nevis_stream.storage import write_file
from tests.nightly.commands import Command
from tests.nightly.sweep import Sweep

OUT = Path("out") / "result.txt"
CONTENT = "the result\n" * 100


def write_right() -> None:
    """Writes as all of the project does."""
    write_file(OUT, CONTENT.encode())


def write_without_sync() -> None:
    """Renames a file whose content may not be on the disk."""
    OUT.parent.mkdir(exist_ok=True)
    new = OUT.with_name("new.txt")
    new.write_text(CONTENT)
    new.rename(OUT)


def write_without_rename() -> None:
    """Writes to a file under its own name."""
    OUT.parent.mkdir(exist_ok=True)
    with open(OUT, "w") as file:
        file.write(CONTENT)
        file.flush()
        os.fsync(file.fileno())


def write_and_leave() -> None:
    """Leaves a temporary file after a kill, and a traceback after an error."""
    OUT.parent.mkdir(exist_ok=True)
    own = OUT.with_name(f"new-{os.getpid()}.txt")
    own.write_text(CONTENT)
    try:
        write_right()
        own.unlink()
    except OSError as error:
        raise ValueError("planted") from error


def once(write: Callable[[], None]) -> None:
    """Writes unless the result is there, and ends as a command does."""
    try:
        if not OUT.exists():
            write()
    except (OSError, NevisStreamError) as error:
        sys.exit(f"error: {error}")


def main() -> None:
    """Examines every point of each writer."""
    result: dict[str, dict[str, list[str]]] = {}
    for write in (write_right, write_without_sync, write_without_rename, write_and_leave):
        sweep = Sweep(Command(write.__name__, functools.partial(once, write)), Path(sys.argv[1]))
        found: dict[str, set[str]] = {}
        for kind, number, details in sweep.points():
            if faults := sweep.examine(kind, number, details):
                found.setdefault(kind, set()).update(faults)
        result[write.__name__] = {kind: sorted(faults) for kind, faults in found.items()}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
