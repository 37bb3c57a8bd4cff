"""The mark of what an archive became: a file beside it, written when all of it is on the disk, with
a checksum of each file. A kill leaves no mark, a power cut none before its bytes, and what a
failing drive changes afterwards is noticed.
"""

import json
import zlib
from pathlib import Path

from nevis_stream.storage import sync_directory, write_file
from nevis_stream.storage.reading import open_file, read_json

_PREFIX = ".from-"
_BLOCK = 2**20


def write_mark(target: Path, origin: str) -> None:
    """Says that `target`, a synced file or folder, is complete.

    Args:
      target: what the archive became.
      origin: the archive, and its state.
    """
    sync_directory(target.parent)
    content = {"from": origin, "files": _checksums(target)}
    write_file(_mark(target), json.dumps(content, sort_keys=True).encode())


def is_whole(target: Path, origin: str | None = None) -> bool:
    """Whether something is what an archive became, unchanged; so is what archives inside of it
    became, which may be gone.

    Args:
      target: a file or folder.
      origin: the archive, and its state; None: any.
    """
    try:
        content = read_json(_mark(target))
        if origin is not None and content["from"] != origin:
            return False
        present = _checksums(target)
        files = dict(content["files"])
    except (OSError, ValueError, KeyError, TypeError):  # of an earlier version, or damaged
        return False
    nested = [path.with_name(path.name.removeprefix(_PREFIX)) for path in _marks(target)]
    became = {str(path.relative_to(target)) for path in nested}
    for name, checksum in files.items():
        if name in present:
            if present[name] != checksum:
                return False
        elif not any(name.startswith(each) for each in became):
            return False
    return all(is_whole(path) for path in nested)


def _mark(target: Path) -> Path:
    return target.with_name(_PREFIX + target.name)


def _marks(target: Path) -> list[Path]:
    return list(target.rglob(f"{_PREFIX}*")) if target.is_dir() else []


def _checksums(target: Path) -> dict[str, int]:
    """Returns a checksum of each file, by its name below `target`; links, which lead to the user's
    files, have none.
    """
    paths = sorted(target.rglob("*")) if target.is_dir() else [target]
    if target.is_symlink():
        return {}
    return {
        str(path.relative_to(target)): _checksum(path)
        for path in paths
        if path.is_file() and not path.is_symlink() and not path.name.startswith(_PREFIX)
    }


def _checksum(path: Path) -> int:
    result = 0
    with open_file(path) as file:
        while block := file.read(_BLOCK):
            result = zlib.crc32(block, result)
    return result
