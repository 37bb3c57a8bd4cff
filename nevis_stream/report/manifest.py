"""Which files a report has written, so that the next report in the same directory can remove those
that are out of date.
"""

import hashlib
import re
from pathlib import Path

from nevis_stream.storage import append_line, write_file
from nevis_stream.storage.reading import read_bytes

FILE = "files.sha256"
_LINE = re.compile(r"([0-9a-f]{64})  ((?:latex/|figures/)?[\w-]+\.(?:csv|tex|png|pdf|html))")


class Files:
    """Writes a report's files and notes each in the directory's list, in the form that `sha256sum
    --check` reads.

    Args:
      out: the report's directory.
    """

    def __init__(self, out: Path):
        self._out = out
        self._earlier = _read(out / FILE)
        self._written: dict[str, str] = {}

    @property
    def names(self) -> list[str]:
        """What has been written, below the directory."""
        return list(self._written)

    def write(self, name: str, data: bytes) -> None:
        """Writes a file; it is listed first, so that a report which is killed leaves none that the
        next one does not know about.
        """
        digest = hashlib.sha256(data).hexdigest()
        append_line(self._out / FILE, f"{digest}  {name}")
        write_file(self._out / name, data)
        self._written[name] = digest

    def close(self) -> list[str]:
        """Removes what earlier reports wrote and this one didn't, and lists what this one wrote.

        Returns:
          Earlier files that stay, because somebody has changed them since.
        """
        changed = []
        for name, digests in self._earlier.items():
            path = self._out / name
            if name in self._written or path.is_symlink() or not path.is_file():
                continue
            if hashlib.sha256(read_bytes(path)).hexdigest() in digests:
                path.unlink()
            else:
                changed.append(name)
        lines = [f"{digest}  {name}\n" for name, digest in sorted(self._written.items())]
        write_file(self._out / FILE, "".join(lines).encode())
        return changed


def _read(path: Path) -> dict[str, set[str]]:
    """Digests by name; lines of another form, or that name a file elsewhere, are ignored."""
    try:
        lines = read_bytes(path).decode().splitlines()
    except (OSError, ValueError):
        return {}
    digests: dict[str, set[str]] = {}
    for line in lines:
        if match := _LINE.fullmatch(line):
            digests.setdefault(match[2], set()).add(match[1])
    return digests
