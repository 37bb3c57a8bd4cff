"""Files that may come from anybody: opened, locked and read as bytes, JSON or arrays; and errors of
the system as messages that name the file, for all that reads and writes.

Regular files only, and not without a bound: opening a FIFO waits for its other end, and a link to
/dev/zero fills the memory; tar and git keep both. Python names the file when opening it fails, and
not when reading, writing, syncing or locking it does; SQLite and libraries in other languages name
none.
"""

import contextlib
import errno
import fcntl
import io
import json
import os
import re
import sqlite3
import stat
import tokenize
import zipfile
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from nevis_stream.errors import BadInput, NevisStreamError, StorageFull

if TYPE_CHECKING:
    import numpy as np

LARGEST = 1 << 30  # bytes of a file that is read as a whole; the largest ledgers have a few million
LARGEST_ARRAYS = 1 << 36  # bytes of a file of arrays: a checkpoint, a part of a data set
_SPECIAL = "not a regular file, but a pipe or a device"
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


def describe_fault(error: OSError | sqlite3.Error) -> str:
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


def resolve_path(path: Path) -> Path:
    """Returns the absolute path of a file without links; in a loop of links, where `Path.resolve`
    raises RuntimeError, the path of one of them.
    """
    return Path(os.path.realpath(path))


def make_relative(path: str | Path, directory: Path) -> str:
    """Returns a path from a directory, for a file in it that is passed on; it begins with a dot."""
    relative = os.path.relpath(path, resolve_path(directory))
    return relative if relative.startswith(os.pardir) else os.path.join(os.curdir, relative)


def locate(path: str, directory: Path) -> str:
    """Returns the absolute path for what `make_relative` returned, and anything else as it is."""
    if not os.fspath(path).startswith(os.curdir):
        return path
    return os.path.normpath(os.path.join(resolve_path(directory), path))


def explain_absence(path: Path | str) -> str:
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


def read_bytes(path: Path, most: int = LARGEST, start: int = 0, locked: bool = False) -> bytes:
    """Returns the content of a regular file.

    Args:
      path: of the file.
      most: bytes that it may have.
      start: where the returned content begins.
      locked: whether to wait for the lock of those that append a line to the file.

    Raises:
      OSError: as `open_file`; it cannot be read, or is larger; the error names it.
    """
    with clear_faults(path), open_file(path) as file:
        if locked:
            lock(file, path, fcntl.LOCK_SH)
        if (size := os.fstat(file.fileno()).st_size) > most:
            raise OSError(errno.EINVAL, f"has {size:,} bytes; at most {most:,} are read", str(path))
        file.seek(start)
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


def parse_json(text: str | bytes, **hooks: Any) -> Any:
    """Returns the value of a JSON text, whoever wrote it; `hooks` as of `json.loads`.

    Raises:
      ValueError: it is not JSON in UTF-8, or nested too deeply.
    """
    try:
        return json.loads(text.decode("utf-8-sig") if isinstance(text, bytes) else text, **hooks)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_json(path: Path, most: int = LARGEST) -> Any:
    """Returns the JSON value in a regular file.

    Raises:
      OSError: as `read_bytes`.
      ValueError: as `parse_json`.
    """
    return parse_json(read_bytes(path, most))


def read_written_json(path: Path) -> Any:
    """Returns the JSON value in a file that a person may have written.

    Raises:
      OSError: as `read_bytes`.
      ValueError: as `parse_json`; a name occurs twice in an object, or a number is none of JSON's.
    """
    return parse_json(
        read_bytes(path), object_pairs_hook=_make_object, parse_constant=_refuse_constant
    )


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} occurs twice in one object")
    return found


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is no value of JSON; write null where there is no number")


_ENCRYPTED = 0x1 | 0x40  # flags: with a password; with strong encryption
_METHODS = {1: "Shrink", 6: "Implode", 9: "Deflate64", 93: "Zstandard", 95: "XZ", 98: "PPMd"}
_READ = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


def check_zip(archive: zipfile.ZipFile, path: Path) -> None:
    """Checks that the members of an archive can be unpacked.

    Raises:
      BadInput: one is encrypted, or compressed with a method that Python does not read, such as
        Deflate64, which Windows uses for files above 2 GB.
    """
    for info in archive.infolist():
        if info.flag_bits & _ENCRYPTED:
            why = "is encrypted"
        elif info.compress_type not in _READ:
            method = _METHODS.get(info.compress_type, "an unknown method")
            why = f"is compressed with {method} (method {info.compress_type})"
        else:
            continue
        raise BadInput(
            f"{path}: its member {info.filename!r} {why}, which cannot be read here. Unpack the"
            " archive and zip its files again, without a password, with the usual method (Deflate)."
        )


# NumPy reads the header of an array as Python text, and allocates what it says
_UNREADABLE = (
    *(OSError, EOFError, ValueError, OverflowError, MemoryError, RecursionError),
    *(SyntaxError, tokenize.TokenError, zipfile.BadZipFile, zlib.error),
)


def read_npz(path: Path, names: Collection[str] | None = None) -> "dict[str, np.ndarray]":
    """Returns the arrays of an .npz file, or those of `names` that it has.

    Raises:
      BadInput: the file is missing, cannot be read, is not an archive of arrays, is cut short, or
        contains Python objects.
    """
    import numpy as np

    try:
        with open_file(path) as file:  # which says why it cannot
            if not zipfile.is_zipfile(file):  # NumPy would report a pickle
                raise ValueError("it is not a zip archive, or it is cut short")
        with zipfile.ZipFile(path) as archive:
            check_zip(archive, path)
        with np.load(path, allow_pickle=False) as file:
            chosen = [name for name in file.files if names is None or name in names]
            arrays = {name: file[name] for name in chosen}
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray):
                raise ValueError(f"its member {name} is not an array")
        return arrays
    except FileNotFoundError:
        raise BadInput(f"{path}: no such file.") from None
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror or error}).") from None
    except BadInput:
        raise
    except _UNREADABLE as error:
        raise BadInput(f"{path}: cannot be read as an .npz of plain arrays ({error}).") from None
