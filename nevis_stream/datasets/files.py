"""The files below a folder: which can be seen, where links lead, what can be opened, and their
names by pattern; and the examples that readers of raw data sets make from them.
"""

import functools
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nevis_stream.datasets.decoding import list_suffixes
from nevis_stream.datasets.images import SourceImage
from nevis_stream.errors import BadInput, unknown
from nevis_stream.storage.reading import read_bytes

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
    return os.path.splitext(name)[1].lower() in list_suffixes()


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


@dataclass(frozen=True, slots=True)
class Example:
    """One image with its label as the raw data set has it.

    Attributes:
      part: where it comes from: all, train, dev, dev_test, test, or a part that the layout's
        `splits` names.
      key: unique in the part; examples are numbered in its order.
      image: the pixels.
      label: a class id (int), a class name (str), a score (float), or a set of ids or names (multi
        label).
      name: of its file, as people know it; empty: the key, if that is no number.
    """

    part: str
    key: str
    image: SourceImage
    label: Any
    name: str = ""

    @property
    def file_name(self) -> str:
        """The name of its file, or nothing."""
        return self.name or ("" if self.key.isdigit() else self.key)


class FileTree:
    """A folder with names relative to it, `/` between folders.

    Args:
      root: the folder.
    """

    def __init__(self, root: Path):
        self.root = root

    @functools.cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all files, sorted, without hidden ones and those of a system."""
        return tuple(sorted(walk(self.root).files))

    @functools.cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.names)

    @functools.cached_property
    def _by_base(self) -> dict[str, list[str]]:
        names_by_base: dict[str, list[str]] = {}
        for name in self.names:
            names_by_base.setdefault(name.rpartition("/")[2], []).append(name)
        return names_by_base

    def path(self, name: str) -> Path:
        """Returns the path of a file.

        Raises:
          BadInput: it is not there.
        """
        if name not in self._known:
            near = self._by_base.get(name.rpartition("/")[2])
            hint = f"; {near[0]} is there" if near else ""
            raise BadInput(f"{self.root}: no file {name!r}{hint}.")
        return self.root / name

    def matching(self, glob: str) -> list[str]:
        """Returns the names that match a pattern; `*` stays inside a folder, `**` does not."""
        pattern, base = re.compile(_regex(glob)), glob.rpartition("/")[2]
        names = self.names if any(char in base for char in "*[") else self._by_base.get(base, ())
        return [name for name in names if pattern.fullmatch(name)]

    def some(self, glob: str) -> list[str]:
        """Like `matching`, but nothing found is an error."""
        names = self.matching(glob)
        if not names:
            raise BadInput(f"{self.root}: no file {glob!r}.")
        return names

    def one(self, glob: str) -> Path:
        """Returns the only file that matches.

        Raises:
          BadInput: no file matches, or more than one.
        """
        names = self.some(glob)
        if len(names) > 1:
            raise BadInput(
                f"{self.root}: {len(names)} files match {glob!r}, one is needed:"
                f" {', '.join(names[:3])}, …"
            )
        return self.root / names[0]

    def lines(self, glob: str) -> list[str]:
        """Returns the lines of the only text file that matches, without empty ones."""
        text = read_bytes(self.one(glob)).decode("utf-8-sig", errors="replace")
        return [line.rstrip("\r") for line in text.split("\n") if line.strip()]


def look_up(known: Mapping[Any, Any], key: Any, place: str) -> Any:
    """Returns what an annotation refers to.

    Args:
      known: what there is, by its name or number.
      key: what the annotation says.
      place: of the annotation, and what it names, for the message: "a.txt, line 3: class".

    Raises:
      BadInput: there is no such thing.
    """
    if key not in known:
        raise BadInput(
            f"{place} {key!r} is not listed, so that the annotation is of nothing known."
        )
    return known[key]


def _regex(glob: str) -> str:
    """`fnmatch` lets `*` cross folders; here only `**` does."""
    out, i = "", 0
    while i < len(glob):
        if glob.startswith("**/", i):
            out, i = out + "(?:.*/)?", i + 3
        elif glob[i] == "*":
            out, i = out + "[^/]*", i + 1
        elif glob[i] == "[":
            end = glob.index("]", i)
            out, i = out + glob[i : end + 1], end + 1
        else:
            out, i = out + re.escape(glob[i]), i + 1
    return out


def fill(template: str, row: Mapping[str, Any]) -> str:
    """Returns the template with `{column}` replaced by the row's values.

    `{number:04d}` formats a number.

    Raises:
      BadInput: the row has no such column.
    """

    def value(match: re.Match) -> str:
        column, _, form = match[1].partition(":")
        if column not in row:
            raise BadInput(unknown("column", column, row))
        return format(int(row[column]), form) if form else str(row[column])

    return re.sub(r"\{([^}]+)\}", value, template)
