"""Errors of the system as messages that name the file: where every write, lock and command's end
turns them.

Python names the file when opening it fails, and not when reading, writing, syncing or locking it
does; SQLite and libraries in other languages name none.
"""

import contextlib
import errno
import fcntl
import os
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from nevis_stream.errors import BadInput, NevisStreamError, StorageFull

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
_IN_TEXT = re.compile(r"\(os error (\d+)\)")  # as programs in Rust write it
_OF_CALL = re.compile(r"\w+\(\) failed: ([^;]+)")  # as array_record does
_UNNAMED = "a file or a drive that this command uses"


@contextlib.contextmanager
def clear_faults(path: Path) -> Iterator[None]:
    """Makes an error of the system in the block name `path`, and a full disk `StorageFull`."""
    try:
        yield
    except Exception as error:
        number = _number(error)
        if number is None:
            if isinstance(error, OSError):  # Python's own: a pipe has no positions
                raise OSError(errno.EINVAL, str(error), str(path)) from error
            raise
        if number in _FULL:
            raise StorageFull(
                f"{path}: cannot be written ({os.strerror(number)}). Nothing already written is"
                " lost. Free some space and start the same command again; it continues from here."
            ) from error
        if isinstance(error, OSError):
            error.filename = error.filename or str(path)
            raise
        raise OSError(number, os.strerror(number), str(path)) from error


def _number(error: Exception) -> int | None:
    """Returns the system's number of an error, None if it is no error of the system."""
    if isinstance(error, OSError):
        return error.errno
    if isinstance(error, NevisStreamError):  # our own message may quote a library's
        return None
    if match := _IN_TEXT.search(str(error)):
        return int(match[1])
    match = _OF_CALL.search(str(error))
    return next((n for n in errno.errorcode if match and os.strerror(n) == match[1]), None)


def lock(file, path: Path, mode: int) -> None:
    """Takes a lock of an open file (`fcntl.flock`).

    Args:
      file: the open file.
      path: its path, for the message.
      mode: fcntl.LOCK_EX or LOCK_SH, with LOCK_NB not to wait.

    Raises:
      BlockingIOError: another process holds it, and LOCK_NB is given.
      BadInput: the drive has no locks.
    """
    with clear_faults(path):
        try:
            fcntl.flock(file, mode)
        except OSError as error:
            _refuse_without_locks(error, path)
            raise


def check_range_locks(path: Path) -> None:
    """Refuses a drive without the locks that SQLite takes (`fcntl.lockf`): it would wait for them
    as for another process.

    Args:
      path: a file of the drive, not a database: SQLite's own locks of it would be lost.

    Raises:
      BadInput: the drive has no locks.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # what reads the file says why it cannot
        return
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        _refuse_without_locks(error, path)
    finally:
        os.close(descriptor)


def _refuse_without_locks(error: OSError, path: Path) -> None:
    if error.errno in _NO_LOCKS:
        raise BadInput(
            f"{path.parent}: its drive has no file locks ({os.strerror(error.errno)}), without"
            " which two commands could write there at once. Choose a directory on another drive,"
            " for example a local one."
        ) from None


def message(error: OSError | sqlite3.Error) -> str:
    """Returns one line on an error of the system that names the file, if the error does."""
    if isinstance(error, OSError):
        reason = error.strerror or (os.strerror(error.errno) if error.errno else str(error))
        return f"{error.filename or _UNNAMED}: {reason}"
    return f"{_UNNAMED}: {error}"


@contextlib.contextmanager
def clear_creation(path: Path) -> Iterator[None]:
    """Turns SQLite's errors while a new database is made into messages.

    Raises:
      StorageFull: the disk is full.
      BadInput: the database cannot be made there.
    """
    try:
        with clear_faults(path):
            yield
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL:
            raise StorageFull(f"{path}: the disk is full; it was not created.") from error
        raise BadInput(
            f"{path}: cannot be created ({error}). Its drive may be failing, forbid writing, or"
            " have no file locks; choose a directory on another drive, for example a local one."
        ) from error
