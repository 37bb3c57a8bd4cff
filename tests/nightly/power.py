"""What a power cut may leave of a folder, from the records of its changes.

The model is POSIX's: the content of a file survives from its last sync, the names in a folder from
the folder's. File systems with a journal keep more: names up to some moment, in order. Of content
that was not synced, nothing survives, or zeros do.
"""

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_HEADER = struct.Struct("=6q")
SYNCED, NAMES, ZEROS, EARLIER = "synced only", "all names", "zeros", "earlier names"
"""States: only what was synced; all names, content that was synced; the same with the size that
the file had, filled up with zeros; names as they were at some moment since a folder's last sync."""
State = dict[str, bytes | None]
"""Content of each file by its path; None for a folder."""


@dataclass(frozen=True)
class Change:
    """A change of a file, by its number among those that were begun."""

    number: int
    size: int
    kind: str
    path: str
    other: str
    content: bytes


@dataclass
class _File:
    synced: bytes = b""
    size: int = 0
    emptied: bool = False  # since the last sync


@dataclass
class _Folder:
    entries: dict = field(default_factory=dict)
    synced: dict = field(default_factory=dict)


def read_changes(journal: Path) -> list[Change]:
    """Returns the changes that a process recorded."""
    data, place, changes = journal.read_bytes(), 0, []
    while place < len(data):
        number, size, *lengths = _HEADER.unpack_from(data, place)
        place += _HEADER.size
        parts = []
        for length in lengths:
            parts.append(data[place : place + length])
            place += length
        kind, path, other = (part.decode(errors="surrogateescape") for part in parts[:3])
        changes.append(Change(number, size, kind, path, other, parts[3]))
    return changes


def read_state(folder: Path) -> State:
    """Returns what is in a folder."""
    return {
        str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
    }


def write_state(state: State, folder: Path) -> None:
    """Makes a folder of a state."""
    folder.mkdir(parents=True)
    for name, content in sorted(state.items()):
        path = folder / name
        if content is None:
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def states_after_cuts(
    before: State, changes: list[Change], folder: Path
) -> Iterator[tuple[int, str, State]]:
    """Yields the number of the last change before a cut, the kind of state, and the state.

    Equal states are yielded once; after the last change, all of them.
    """
    disk, seen, chance = _Disk(before, folder), set(), random.Random(0)
    for place, change in enumerate(changes):
        disk.take(change)
        last = place == len(changes) - 1
        for kind, state in disk.states(chance):
            key = frozenset(state.items())
            if last or key not in seen:
                seen.add(key)
                yield change.number, kind, state


class _Disk:
    """What is written and what is synced."""

    def __init__(self, before: State, folder: Path):
        self._folder = folder.resolve()
        self._root = _Folder()
        for name, content in sorted(before.items()):
            node = _Folder() if content is None else _File(content, len(content))
            parent, last = self._find(str(self._folder / name))
            parent.entries[last] = parent.synced[last] = node
        self._names: list[dict] = []  # since a folder was synced

    def take(self, change: Change) -> None:
        """Makes a change."""
        parent, name = self._find(change.path)
        node = parent.entries.get(name) if name else self._root
        kind = change.kind
        if kind == "create":
            parent.entries[name] = _File()
        elif kind == "mkdir":
            parent.entries[name] = _Folder()
        elif kind in ("unlink", "rmdir"):
            parent.entries.pop(name, None)
        elif kind in ("rename", "link"):
            target, new = self._find(change.other)
            target.entries[new] = node
            if kind == "rename":
                del parent.entries[name]
        elif kind == "fsync" and isinstance(node, _Folder):
            node.synced = dict(node.entries)
            self._names = []
        elif kind == "fsync" and isinstance(node, _File):
            node.synced, node.size, node.emptied = change.content, len(change.content), False
        elif kind in ("write", "empty", "truncate") and isinstance(node, _File):
            node.size = change.size
            node.emptied |= not change.size

    def states(self, chance: random.Random) -> Iterator[tuple[str, State]]:
        """Yields what may be left now."""
        names = dict(self._walk(self._root, ""))
        self._names.append(names)
        yield (
            SYNCED,
            {
                name: None if isinstance(node, _Folder) else node.synced
                for name, node in self._walk(self._root, "", synced=True)
            },
        )
        yield NAMES, {name: _content(node, zeros=False) for name, node in names.items()}
        yield ZEROS, {name: _content(node, zeros=True) for name, node in names.items()}
        earlier = chance.choice(self._names)
        yield EARLIER, {name: _content(node, zeros=False) for name, node in earlier.items()}

    def _find(self, path: str) -> tuple[_Folder, str]:
        """Returns the folder of a path, and the path's name in it."""
        parts = Path(path).relative_to(self._folder).parts
        node = self._root
        for part in parts[:-1]:
            node = node.entries.get(part) or _Folder()  # a deleted one may still be open
        return node, parts[-1] if parts else ""

    def _walk(self, folder: _Folder, above: str, synced: bool = False) -> Iterator[tuple]:
        for name, node in (folder.synced if synced else folder.entries).items():
            yield above + name, node
            if isinstance(node, _Folder):
                yield from self._walk(node, f"{above}{name}/", synced)


def _content(node: _File | _Folder, zeros: bool) -> bytes | None:
    if isinstance(node, _Folder):
        return None
    kept = b"" if node.emptied else node.synced[: node.size]
    return kept.ljust(node.size, b"\0") if zeros else kept
