"""The files below a folder: which can be seen, where links lead, and what can be opened."""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nevis_stream.datasets.decoding import suffixes
from nevis_stream.errors import BadInput

_SYSTEM = frozenset(
    ("__MACOSX", "@eaDir", "#recycle", "$RECYCLE.BIN", "System Volume Information", "lost+found")
)
_SPECIAL = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
_NOWHERE = "a link that leads nowhere"


@dataclass
class Walk:
    """What lies below a folder; names are relative to it, with `/` between folders.

    Attributes:
      files: regular files that can be seen, links to files included, sorted by folders.
      folders: folders that can be seen.
      hidden: files that are hidden or in a hidden folder, or in one that a system keeps for itself
        (`.ipynb_checkpoints`, `@eaDir`, `__MACOSX`).
      special: what other names stand for: a named pipe, a device, a link to nothing.
      linked: whether any name is a link.
    """

    files: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)
    special: dict[str, str] = field(default_factory=dict)
    linked: bool = False


def walk(root: Path) -> Walk:
    """Returns what lies below a folder. Links are followed.

    Raises:
      BadInput: a link leads back to a folder that contains it, or a folder cannot be read.
    """
    found = Walk()
    pending: list[tuple[str, bool, tuple[tuple[int, int], ...]]] = [("", False, ())]
    while pending:
        name, hidden, above = pending.pop()
        folder = root / name if name else root
        try:
            facts = os.stat(folder)
            with os.scandir(folder) as listed:
                entries = list(listed)
        except OSError as error:
            raise BadInput(f"{folder}: cannot be read ({error.strerror}).") from None
        identity = facts.st_dev, facts.st_ino
        if identity in above:
            raise BadInput(
                f"{folder}: is a link to a folder that contains it, so it would never end. Remove"
                " the link."
            )
        for entry in entries:
            inside = f"{name}/{entry.name}" if name else entry.name
            unseen = hidden or is_hidden(entry.name)
            found.linked |= entry.is_symlink()
            if _is_folder(entry, follow=not unseen):
                if not unseen:
                    found.folders.append(inside)
                pending.append((inside, unseen, (*above, identity)))
            elif unseen:
                found.hidden.append(inside)
            elif _is_file(entry):
                found.files.append(inside)
            else:
                found.special[inside] = _kind_of(entry)
    for names in (found.files, found.folders, found.hidden):
        names.sort(key=lambda name: name.split("/"))
    return found


def is_hidden(name: str) -> bool:
    """Whether a file or folder is hidden, or one that a system keeps for itself.

    >>> is_hidden(".ipynb_checkpoints"), is_hidden("@eaDir"), is_hidden("cat")
    (True, True, False)
    """
    return name.startswith(".") or name in _SYSTEM


def is_image(name: str) -> bool:
    """Whether a file is called like an image."""
    return os.path.splitext(name)[1].lower() in suffixes()


def check_special(root: Path, special: Mapping[str, str]) -> None:
    """Checks that no image is anything but a file.

    Raises:
      BadInput: one is a named pipe, a device or a link to nothing.
    """
    for name, kind in special.items():
        if is_image(name):
            raise BadInput(f"{root / name}: is {kind}, not a file. Remove it.")


def _is_folder(entry: os.DirEntry, follow: bool) -> bool:
    try:
        return entry.is_dir(follow_symlinks=follow)
    except OSError:  # a link to itself leads nowhere, as one to a file that is gone
        return False


def _is_file(entry: os.DirEntry) -> bool:
    try:
        return entry.is_file()
    except OSError:
        return False


def _kind_of(entry: os.DirEntry) -> str:
    try:
        mode = entry.stat().st_mode
    except OSError:
        return _NOWHERE
    return _SPECIAL.get(stat.S_IFMT(mode), "a device")
