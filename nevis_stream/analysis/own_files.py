"""Files that really are in a directory: one from elsewhere may contain links to other files."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from nevis_stream.errors import BadInput

_READ_BY_REPORTS = ("config.json", "environment.jsonl", "readings.json", "stream.csv", "thumbnails")
T = TypeVar("T")


def find_own_file(directory: Path, name: str) -> Path:
    """Returns the path of a regular file of a directory, which itself may be a link.

    Args:
      directory: a run directory, an evaluation cache or a transfer matrix.
      name: of the file, below the directory.

    Raises:
      BadInput: a part of the path below the directory is a symbolic link or `..`, or it is not a
        regular file.
      FileNotFoundError: no such file.
    """
    path = directory
    for part in Path(name).parts:
        path = path / part
        if path.is_symlink() or part == "..":
            raise BadInput(
                f"{path}: leads out of the directory, or may (a symbolic link); only files of the"
                " directory itself are read."
            )
    if not path.exists():
        raise FileNotFoundError(path)
    if not path.is_file():
        raise BadInput(f"{path}: not a regular file.")
    return path


def read_own_file(
    directory: Path, name: str, read: Callable[[Path], T], unread: dict[str, str]
) -> T | None:
    """Returns what `read` makes of a file of a directory; None without the file, or if it cannot be
    read.

    Args:
      directory, name: as of `find_own_file`.
      read: reads the file; raises OSError or ValueError if it cannot.
      unread: gains the reason under `name` if the file is there and cannot be read.
    """
    try:
        return read(find_own_file(directory, name))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, RecursionError) as error:
        text = getattr(error, "strerror", None) or str(error) or type(error).__name__
        reason = text.removeprefix(f"{directory / name}: ")
        unread[name] = f"cannot be read ({reason.rstrip('.')})"
        return None


def list_links(directory: Path) -> list[str]:
    """Returns the symbolic links among the files that a report reads, below `directory`."""
    candidates = [*directory.glob("*"), *directory.glob("thumbnails/*")]
    return sorted(
        str(path.relative_to(directory))
        for path in candidates
        if path.is_symlink() and (path.parent != directory or path.name in _READ_BY_REPORTS)
    )
