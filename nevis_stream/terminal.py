"""Output to a terminal, without control characters in what is printed.

Names in run directories, csv files and caches may come from anybody: an escape sequence in one of
them could clear the screen, move the cursor or change what was printed before.
"""

import re
import sys
from collections.abc import Iterable
from typing import TextIO

import rich.console
from rich.segment import Segment

from nevis_stream.storage.names import readable

# all but tab and newline; marks that reverse the direction of text; halves of a pair of surrogates
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    """Returns a text without control characters other than tabs and newlines.

    >>> printable("a\\x1b[2Jb")
    'a[2Jb'
    """
    return _CONTROL.sub("", readable(text))


class PrintableStream:
    """A text stream that writes printable characters only.

    Attributes:
      stream: what it writes to.
    """

    def __init__(self, stream: TextIO):
        self.stream = stream

    def write(self, text: str) -> int:
        """Writes a text without its control characters."""
        self.stream.write(printable(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Writes several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str):
        return getattr(self.stream, name)


class Console(rich.console.Console):
    """A rich console with its own styles and cursor movements, and printable texts.

    Args:
      file: a text stream; None: the standard output.
      **options: of `rich.console.Console`.
    """

    def __init__(self, file: TextIO | None = None, **options):
        file = file or sys.stdout
        super().__init__(file=getattr(file, "stream", file), **options)

    def render(self, renderable, options=None):
        """Yields the segments of what is printed."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


def protect_streams() -> None:
    """Makes the process's standard output and error printable streams."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, PrintableStream):
            setattr(sys, name, PrintableStream(stream))
