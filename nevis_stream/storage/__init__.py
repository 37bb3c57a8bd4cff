"""Writing files so that a kill leaves the old content or the new one, and a full disk is a clear
error.

Temporary files and folders are made beside what they become, each under a lock that ends with its
process: what a killed process left is deleted by the next one that writes into the same folder.
A folder is locked by a file beside it, since the lock of a folder on NFS holds on its node alone.
"""

import contextlib
import errno
import fcntl
import glob
import os
import re
import secrets
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from nevis_stream.errors import RunLocked
from nevis_stream.storage.reading import clear_faults, lock, open_own

TEMPORARY_PREFIX = ".tmp-"  # may be deleted after a kill
_FOLDER = "-folder"  # after the name of the file that locks it
# the folder, and what SQLite makes beside a database, are deleted before it
_COMPANIONS = (_FOLDER, "-journal", "-wal", "-shm")
_NAME = re.compile(rf"{re.escape(TEMPORARY_PREFIX)}.+-\d+-[0-9a-f]{{8}}")
_swept: set[str] = set()


def make_temporary_name(path: Path) -> Path:
    """Returns a path next to `path` that nothing else uses."""
    return path.with_name(f"{TEMPORARY_PREFIX}{path.name}-{os.getpid()}-{secrets.token_hex(4)}")


@contextlib.contextmanager
def make_temporary(path: Path, is_folder: bool = False) -> Iterator[Path]:
    """Makes an empty file or folder next to `path`, for the block to fill and rename.

    What is left of it at the end of the block is deleted, and, once in a process, what killed
    processes left in the same folder.
    """
    remove_abandoned(path.parent)
    descriptor = None
    while descriptor is None:
        made = make_temporary_name(path)
        descriptor = _make(made)
    try:
        if is_folder:
            folder = made.with_name(made.name + _FOLDER)
            folder.mkdir()
        yield folder if is_folder else made
    finally:
        _delete(made)
        os.close(descriptor)


@contextlib.contextmanager
def make_scratch_folder(name: str) -> Iterator[Path]:
    """Makes a folder of this user alone among the system's temporary files, for the block."""
    with make_temporary(Path(tempfile.gettempdir()) / name, is_folder=True) as folder:
        folder.chmod(0o700)
        yield folder


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
            remove_if_abandoned(folder / name)


def remove_if_abandoned(path: Path) -> bool:
    """Deletes a temporary file or folder if its process has ended; returns whether no process has
    it.
    """
    try:
        kind = path.lstat().st_mode
        if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):  # a folder of `_discard`
            return False
        descriptor = _open(path)
        try:
            # raised if its process is at work, or if the drive has no locks and so nobody knows
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _delete(path)
        finally:
            os.close(descriptor)
    except OSError as error:
        return isinstance(error, FileNotFoundError)
    return True


def _make(path: Path) -> int | None:
    """Makes and locks a file; None if another process has deleted it before the lock."""
    descriptor = None
    try:
        descriptor = _open(path, os.O_CREAT | os.O_EXCL)
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
    companions = [path.with_name(path.name + end) for end in _COMPANIONS]
    for each in (*companions, path):
        if each == path and any(companion.exists() for companion in companions):
            return  # one could not be deleted: by the file that is left the next process finds it
        if each.is_dir():
            shutil.rmtree(each, ignore_errors=True)
        else:
            with contextlib.suppress(OSError):
                each.unlink()


_REPLACED_PREFIX = ".old-"  # followed by NAME-8hex; after a kill it may be the only copy
_ATTEMPTS = 10  # at replacing a directory that another process replaces too
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST)


def sync_directory(path: Path) -> None:
    """Makes renames and new names in the directory `path` durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(path: Path) -> None:
    """Makes a file, or a folder and all below it, durable; links are not followed."""
    if path.is_symlink():
        return
    if not path.is_dir():
        with open(path, "rb") as file:
            os.fsync(file.fileno())
        return
    for each in path.iterdir():
        sync_tree(each)
    sync_directory(path)


def make_directory(path: Path) -> None:
    """Creates a folder, and missing ones above it, with durable names."""
    missing = []
    for each in (path, *path.parents):
        if each.is_dir():
            break
        missing.append(each)
    path.mkdir(parents=True, exist_ok=True)
    for each in reversed(missing):
        sync_directory(each.parent)


def _write_synced(path: Path, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_file(path: Path, data: bytes) -> None:
    """Writes a whole file: temporary name, sync, rename. A device or pipe is not replaced."""
    make_directory(path.parent)
    with clear_faults(path):
        try:
            if path.exists() and not (path.is_file() or path.is_dir()):
                raise OSError(errno.EINVAL, "not a regular file")
            with make_temporary(path) as new:
                _write_synced(new, data)
                os.replace(new, path)
                sync_directory(path.parent)
        except OSError as error:
            error.filename = str(path)  # the temporary name means nothing to a user
            raise


def write_directory(path: Path, files: dict[str, bytes]) -> None:
    """Writes a directory with these files, replacing an older one.

    Another process may do the same. After a kill, `recover` or `remove_leftovers` restores the old
    one or the new one.
    """
    make_directory(path.parent)
    with clear_faults(path), make_temporary(path, is_folder=True) as new:
        for name, data in files.items():
            _write_synced(new / name, data)
        sync_directory(new)
        replace_directory(new, path)


def replace_directory(new: Path, path: Path) -> None:
    """Moves the directory `new` to `path`; an older one is deleted once the new one is in place.

    This takes two renames, since no portable call exchanges two directories. A kill between them
    leaves the old one under a name that `recover` knows.

    Args:
      new: a complete, synced directory on the same file system.
      path: its place, which may hold an older directory; another process may replace it too.
    """
    recover(path)
    for attempt in range(_ATTEMPTS):
        replaced = path.with_name(f"{_REPLACED_PREFIX}{path.name}-{secrets.token_hex(4)}")
        with contextlib.suppress(FileNotFoundError):
            os.rename(path, replaced)
        try:
            os.rename(new, path)
            break
        except OSError as error:
            _put_back(replaced, path)
            if error.errno not in _TAKEN or attempt == _ATTEMPTS - 1:
                raise
    sync_directory(path.parent)
    _discard(replaced)


def recover(path: Path) -> None:
    """Completes or undoes a `replace_directory` of `path` that a kill interrupted."""
    for replaced in path.parent.glob(f"{_REPLACED_PREFIX}{glob.escape(path.name)}-????????"):
        _put_back(replaced, path)
    remove_abandoned(path.parent)  # an older one, half deleted


def recover_all(folder: Path) -> None:
    """Does what `recover` does for all directories in a folder, which is the project's own."""
    for replaced in folder.glob(f"{_REPLACED_PREFIX}*-????????"):
        _put_back(replaced, folder / replaced.name[len(_REPLACED_PREFIX) : -9])
    remove_abandoned(folder)


def _put_back(replaced: Path, path: Path) -> None:
    """Moves a replaced directory back to its place, or deletes it if the place is taken."""
    try:
        os.rename(replaced, path)
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno not in _TAKEN:
            raise
        _discard(replaced)


def _discard(directory: Path) -> None:
    """Deletes a directory after renaming it, so that half of it can never be put back."""
    discarded = make_temporary_name(directory)
    with contextlib.suppress(FileNotFoundError):
        os.rename(directory, discarded)
        shutil.rmtree(discarded, ignore_errors=True)


def append_line(path: Path, line: str | Callable[[BinaryIO, int], str | None]) -> None:
    """Appends one line and syncs it; what a crash left after the last newline is removed first.

    Several processes may append.

    Args:
      path: of the file.
      line: without its newline; or what makes it of the open file and the end of its whole lines,
        between whose reading and the append no other process appends; None appends nothing.

    Raises:
      StorageFull: the line could not be written; the file is as before.
      BadInput: the drive has no locks.
    """
    make_directory(path.parent)
    with clear_faults(path), open_own(path) as file:
        # without the lock, a line that another process is writing would look like a leftover
        lock(file, path, fcntl.LOCK_EX)
        end = _find_end_of_last_line(file)
        if file.seek(0, os.SEEK_END) > end:  # not at each append: those who read on would see it
            file.truncate(end)
        if end == 0:  # the name of a new file, before its first line counts
            sync_directory(path.parent)
        if not isinstance(line, str):
            made = line(file, end)
            if made is None:
                return
            line = made
        remaining = memoryview(line.encode() + b"\n")
        try:
            while remaining:
                remaining = remaining[file.write(remaining) :]
            os.fsync(file.fileno())
        except OSError:
            with contextlib.suppress(OSError):
                file.truncate(end)
            raise


def _find_end_of_last_line(file) -> int:
    """Returns the offset after the last newline, reading backwards in blocks."""
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
    """Removes what a killed process left directly inside `directory`.

    Temporary files and directories are deleted; directories whose replacement was interrupted are
    put back.
    """
    recover_all(directory)
    for path in directory.glob(TEMPORARY_PREFIX + "*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def lock_exclusively(
    path: Path,
    busy: str = "is working in this run directory. Wait for it or stop it, or choose another --run_dir.",  # noqa: E501
) -> Iterator[None]:
    """Holds a lock on the file `path` while the block runs; the system releases it when the process
    ends.

    Args:
      path: the lock file.
      busy: end of the error message: what the other process does, and what the user can do.

    Raises:
      RunLocked: another process holds it; the message names the process.
      BadInput: the drive has no locks.
    """
    make_directory(path.parent)
    with clear_faults(path.parent), open_own(path) as file:
        if not _try_lock(file, path):
            file.seek(0)
            holder = file.read().decode(errors="replace").strip() or "unknown"
            raise RunLocked(f"{path.parent}: another process (pid {holder}) {busy}")
        file.truncate(0)
        file.write(f"{os.getpid()} on {socket.gethostname()}\n".encode())
        yield


_LOCK_ATTEMPTS = 5


def _try_lock(file, path: Path) -> bool:
    """Takes the lock of an open file, in several attempts: `launch.watch` takes it at times."""
    for attempt in range(_LOCK_ATTEMPTS):
        try:
            lock(file, path, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(0.02 * (attempt < _LOCK_ATTEMPTS - 1))
    return False
