"""Opens files that may come from anybody: regular files only, and not without a bound.

Opening a FIFO waits for its other end, and a link to /dev/zero fills the memory; tar and git keep
both.
"""

import errno
import io
import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

from nevis_stream.storage.faults import clear_faults

LARGEST = 1 << 30  # bytes of a file that is read as a whole; the largest ledgers have a few million


def open_file(path: Path | str) -> BinaryIO:
    """Opens a regular file for reading bytes, also behind a link.

    Raises:
      OSError: it is missing, cannot be opened, or is not a regular file; the error names it.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # of a FIFO: at once
    try:
        kind = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(kind):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_bytes(path: Path, most: int = LARGEST) -> bytes:
    """Returns the content of a regular file.

    Args:
      path: of the file.
      most: bytes that it may have.

    Raises:
      OSError: as `open_file`; it cannot be read, or is larger; the error names it.
    """
    with clear_faults(path), open_file(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EINVAL, f"has more than {most:,} bytes, which is too large", str(path))
    return content


def read_lines(path: Path) -> io.TextIOWrapper:
    """Opens a regular file of UTF-8 text, to be read line by line; other bytes are replaced."""
    return io.TextIOWrapper(open_file(path), encoding="utf-8", errors="replace")


def parse_json(text: str | bytes) -> Any:
    """Returns the value of a JSON text, whoever wrote it.

    Raises:
      ValueError: it is not JSON in UTF-8, or nested too deeply.
    """
    try:
        return json.loads(text.decode() if isinstance(text, bytes) else text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_json(path: Path, most: int = LARGEST) -> Any:
    """Returns the JSON value in a regular file.

    Raises:
      OSError: as `read_bytes`.
      ValueError: as `parse_json`.
    """
    return parse_json(read_bytes(path, most))
