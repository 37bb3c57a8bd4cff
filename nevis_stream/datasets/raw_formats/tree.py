"""A folder of unpacked files, and the examples that readers make from it."""

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nevis_stream.datasets.files import walk
from nevis_stream.datasets.images import SourceImage
from nevis_stream.errors import BadInput, unknown
from nevis_stream.storage.reading import read_bytes


@dataclass(frozen=True, slots=True)
class Example:
    """One image with its label as the raw data set has it.

    Attributes:
      part: where it comes from: all, train, dev, dev_test, test, or a part that `splits` names.
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
