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
from typing import TYPE_CHECKING, Any, BinaryIO

from nevis_stream.storage.faults import clear_faults

if TYPE_CHECKING:
    import numpy as np

LARGEST = 1 << 30  # bytes of a file that is read as a whole; the largest ledgers have a few million
_SPECIAL = "not a regular file, but a pipe or a device"
LARGEST_ARRAYS = 1 << 36  # bytes of a file of arrays: a checkpoint, a part of a data set


def real_path(path: Path) -> Path:
    """Returns the absolute path of a file without links; in a loop of links, where `Path.resolve`
    raises RuntimeError, the path of one of them.
    """
    return Path(os.path.realpath(path))


def absence(path: Path | str) -> str:
    """Returns why there is no regular file at a path, for a message."""
    if os.path.isdir(path):
        return "a directory, and not a file"
    if os.path.exists(path):
        return f"{_SPECIAL}; write its content to a file"
    return "a link that leads to no file" if os.path.islink(path) else "no such file or directory"


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
            raise OSError(errno.EINVAL, _SPECIAL, str(path))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def open_own(path: Path) -> BinaryIO:
    """Opens a regular file for reading and appending, unbuffered, and makes it if it is missing; a
    lock or a log. Not behind a link: in a folder from anybody it may lead to a file of the user's.

    Raises:
      OSError: it cannot be opened, or is not a regular file, or a link; the error names it.
    """
    refuse_link(path)
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o666)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, _SPECIAL, str(path))
        return os.fdopen(descriptor, "ab+", buffering=0)
    except BaseException:
        os.close(descriptor)
        raise


def refuse_link(path: Path) -> None:
    """Raises an OSError for a symbolic link to a file that would be written."""
    if path.is_symlink():
        raise OSError(errno.ELOOP, "a symbolic link, behind which nothing is written", str(path))


def read_bytes(path: Path, most: int = LARGEST) -> bytes:
    """Returns the content of a regular file.

    Args:
      path: of the file.
      most: bytes that it may have.

    Raises:
      OSError: as `open_file`; it cannot be read, or is larger; the error names it.
    """
    with clear_faults(path), open_file(path) as file:
        if (size := os.fstat(file.fileno()).st_size) > most:
            raise OSError(errno.EINVAL, f"has {size:,} bytes; at most {most:,} are read", str(path))
        return file.read()


def open_text(path: Path, errors: str = "strict") -> io.TextIOWrapper:
    """Opens a regular file of UTF-8 text, with its line ends as they are.

    Args:
      path: of the file.
      errors: what is done with other bytes, as in `open`.

    Raises:
      OSError: as `open_file`.
    """
    return io.TextIOWrapper(open_file(path), encoding="utf-8", errors=errors, newline="")


def load_array(path: Path, mapped: bool = True) -> "np.ndarray":
    """Returns the array in a regular .npy file.

    Args:
      path: of the file.
      mapped: whether it stays on disk.

    Raises:
      OSError: as `open_file`.
      ValueError, EOFError: it is not an array of numbers or texts, or cut short.
    """
    import numpy as np  # not with this module: commands set its threads before they import it

    open_file(path).close()
    return np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)


def parse_json(text: str | bytes) -> Any:
    """Returns the value of a JSON text, whoever wrote it.

    Raises:
      ValueError: it is not JSON in UTF-8, or nested too deeply.
    """
    try:
        return json.loads(text.decode("utf-8-sig") if isinstance(text, bytes) else text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_json(path: Path, most: int = LARGEST) -> Any:
    """Returns the JSON value in a regular file.

    Raises:
      OSError: as `read_bytes`.
      ValueError: as `parse_json`.
    """
    return parse_json(read_bytes(path, most))
