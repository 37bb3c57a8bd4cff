"""Writing files so that a kill at any instant leaves either the old content or the new, and a full
disk stops clearly.
"""

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

from nevis_stream.errors import RunLocked, StorageFull

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
TEMPORARY_PREFIX = ".tmp-"
_ATTEMPTS = 10  # at putting a directory where another process puts the same one


@contextlib.contextmanager
def clear_when_full(path: Path) -> Iterator[None]:
    """Turns a refused write below `path` into `StorageFull`, which says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise StorageFull(
            f"{path}: the write was refused ({os.strerror(error.errno)}). Nothing already written"
            " is lost: free some space and start the same command again, it goes on from here."
        ) from error


def sync_directory(path: Path) -> None:
    """Makes renames and new names in the directory `path` durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _temporary(path: Path) -> Path:
    """A name beside `path` that no other process or thread takes, and that `remove_leftovers`
    finds.
    """
    return path.with_name(f"{TEMPORARY_PREFIX}{path.name}-{os.getpid()}-{secrets.token_hex(4)}")


def _write_synced(path: Path, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_file(path: Path, data: bytes) -> None:
    """Writes a whole file: temporary name, sync, rename."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    with clear_when_full(path):
        try:
            _write_synced(temporary, data)
            os.replace(temporary, path)
            sync_directory(path.parent)
        except OSError as error:
            error.filename = str(path)  # no user knows the other name
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise


def write_directory(path: Path, files: dict[str, bytes]) -> None:
    """Writes a directory with these files in one step, replacing what stood there, even if another
    process does so too.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _temporary(path)
    with clear_when_full(path):
        try:
            temporary.mkdir()
            for name, data in files.items():
                _write_synced(temporary / name, data)
            sync_directory(temporary)
            _put(temporary, path)
            sync_directory(path.parent)
        except OSError:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def _put(temporary: Path, path: Path) -> None:
    """Puts a directory in the place of another; a second process may be doing the same."""
    for attempt in range(_ATTEMPTS):
        shutil.rmtree(path, ignore_errors=True)
        try:
            return os.rename(temporary, path)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST) or attempt == _ATTEMPTS - 1:
                raise


def append_line(path: Path, line: str) -> None:
    """Appends one line and syncs it; what a crash left behind the last newline is cut first.
    Several processes may append.

    Raises:
      StorageFull: the line could not be written; the file is as before.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with clear_when_full(path), open(path, "ab+", buffering=0) as file:
        # what another process is writing is no leftover of a crash
        fcntl.flock(file, fcntl.LOCK_EX)
        end = _end_of_last_line(file)
        file.truncate(end)
        left = memoryview(line.encode() + b"\n")
        try:
            while left:
                left = left[file.write(left) :]
            os.fsync(file.fileno())
        except OSError:
            with contextlib.suppress(OSError):
                file.truncate(end)
            raise


def _end_of_last_line(file) -> int:
    """Returns the offset behind the last newline, reading backwards in blocks."""
    position = file.seek(0, os.SEEK_END)
    while position > 0:
        start = max(0, position - 65536)
        file.seek(start)
        newline = file.read(position - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        position = start
    return 0


def remove_leftovers(directory: Path) -> None:
    """Deletes temporary files and directories that a killed process left directly inside
    `directory`.
    """
    for path in directory.glob(TEMPORARY_PREFIX + "*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def exclusive(
    path: Path,
    busy: str = "is working in this run directory. Wait for it or stop it, or choose another --run_dir.",  # noqa: E501
) -> Iterator[None]:
    """Holds the lock file `path` while the block runs; the system drops it when the process dies.

    Args:
      path: the lock file.
      busy: what another process does that holds it, and what the user may do.

    Raises:
      RunLocked: another process holds it; the message says which.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with clear_when_full(path), open(path, "a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read().strip() or "unknown"
            raise RunLocked(f"{path.parent}: another process (pid {holder}) {busy}") from None
        file.truncate(0)
        file.write(f"{os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield
