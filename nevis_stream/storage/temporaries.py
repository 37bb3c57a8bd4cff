"""Temporary files and folders beside what they become, each under a lock that ends with its
process: what a killed process left is deleted by the next one that writes into the same folder.
"""

import contextlib
import fcntl
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

TEMPORARY_PREFIX = ".tmp-"  # may be deleted after a kill
# what SQLite makes beside a database is deleted before it
_COMPANIONS = ("-journal", "-wal", "-shm")
_NAME = re.compile(rf"{re.escape(TEMPORARY_PREFIX)}.+-\d+-[0-9a-f]{{8}}")
_swept: set[str] = set()


def temporary_name(path: Path) -> Path:
    """Returns a path next to `path` that nothing else uses."""
    return path.with_name(f"{TEMPORARY_PREFIX}{path.name}-{os.getpid()}-{secrets.token_hex(4)}")


@contextlib.contextmanager
def temporary(path: Path, is_folder: bool = False) -> Iterator[Path]:
    """Makes an empty file or folder next to `path`, for the block to fill and rename.

    What is left of it at the end of the block is deleted, and, once in a process, what killed
    processes left in the same folder.
    """
    remove_abandoned(path.parent)
    descriptor = None
    while descriptor is None:
        made = temporary_name(path)
        descriptor = _make(made, is_folder)
    try:
        yield made
    finally:
        _delete(made)
        os.close(descriptor)


def remove_abandoned(folder: Path) -> None:
    """Deletes the temporary files and folders in a folder whose processes have ended, once in a
    process.
    """
    key = os.path.abspath(folder)
    if key in _swept:
        return
    _swept.add(key)
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for name in [entry.name for entry in entries if _NAME.fullmatch(entry.name)]:
            with contextlib.suppress(OSError):
                _remove_if_abandoned(folder / name)


def _remove_if_abandoned(path: Path) -> None:
    kind = path.lstat().st_mode
    if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
        return
    descriptor = _open(path)
    try:
        # raised if its process is at work, or if the drive has no locks and so nobody knows
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _delete(path)
    finally:
        os.close(descriptor)


def _make(path: Path, is_folder: bool) -> int | None:
    """Makes and locks a file or folder; None if another process has deleted it before the lock."""
    descriptor = None
    try:
        if is_folder:
            path.mkdir()
        descriptor = _open(path, 0 if is_folder else os.O_CREAT | os.O_EXCL)
        with contextlib.suppress(OSError):  # a drive without locks: it stays after a kill
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if path.lstat().st_ino == os.fstat(descriptor).st_ino:
                return descriptor
    except FileExistsError:
        return None
    except FileNotFoundError:
        if not path.parent.exists():
            raise
    except OSError:
        _delete(path)
        raise
    if descriptor is not None:
        os.close(descriptor)
    return None


def _open(path: Path, how: int = 0) -> int:
    # network drives lock only files that are open for writing
    mode = os.O_RDONLY if path.is_dir() else os.O_RDWR
    return os.open(path, mode | how | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)


def _delete(path: Path) -> None:
    if not path.exists():
        return
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
        return
    for each in (*(path.with_name(path.name + end) for end in _COMPANIONS), path):
        with contextlib.suppress(OSError):
            each.unlink()
