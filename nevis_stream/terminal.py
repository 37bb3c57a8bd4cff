"""Output to a terminal, without control characters in what is printed, and bars of progress.

Names in run directories, csv files and caches may come from anybody: an escape sequence in one of
them could clear the screen, move the cursor or change what was printed before. Without a terminal
there are no bars, and a run prints a line for each result.
"""

import re
import sys
from collections.abc import Iterable
from typing import TextIO

import rich.console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.segment import Segment

# all but tab and newline; marks that reverse the direction of text; halves of a pair of surrogates
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def strip_control_characters(text: str) -> str:
    """Returns a text without control characters other than tabs and newlines.

    >>> strip_control_characters("a\\x1b[2Jb")
    'a[2Jb'
    """
    return _CONTROL.sub("", as_text(text))


def is_plain_line(text: str) -> bool:
    """Returns whether a text is one line that is printed as it is.

    >>> is_plain_line("a b"), is_plain_line("a\\n"), is_plain_line("a\\x1b[2Jb")
    (True, False, False)
    """
    return (
        text.splitlines() == [text] and "\t" not in text and strip_control_characters(text) == text
    )


class PrintableStream:
    """A text stream that writes printable characters only.

    Attributes:
      stream: what it writes to.
    """

    def __init__(self, stream: TextIO):
        self.stream = stream

    def write(self, text: str) -> int:
        """Writes a text without its control characters."""
        self.stream.write(strip_control_characters(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Writes several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str):
        return getattr(self.stream, name)


class Console(rich.console.Console):
    """A rich console with its own styles and cursor movements, and printable texts, which it takes
    as they are: `M [revision=b]` is a name, and no markup.

    Args:
      file: a text stream; None: the standard output.
      **options: of `rich.console.Console`.
    """

    def __init__(self, file: TextIO | None = None, **options):
        file = file or sys.stdout
        stream = getattr(file, "stream", file)
        super().__init__(file=stream, markup=False, emoji=False, **options)

    def render(self, renderable, options=None):
        """Yields the segments of what is printed."""
        for segment in super().render(renderable, options):
            yield (
                segment
                if segment.control
                else Segment(strip_control_characters(segment.text), segment.style)
            )


def protect_streams() -> None:
    """Makes the process's standard output and error printable streams."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, PrintableStream):
            setattr(sys, name, PrintableStream(stream))


def make_progress_bars() -> Progress:
    """Returns progress bars on standard error; without a terminal they show nothing."""
    console = Console(file=sys.stderr)
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


class TerminalProgress:
    """A `Progress` that shows what it is told as bars; use it as a context manager.

    Args:
      title: of the work.
      lines: whether to print a line for each new stage if there is no terminal.
    """

    def __init__(self, title: str, lines: bool = False):
        self._title, self._lines, self._printed = title, lines, ""
        self._bars = make_progress_bars()
        self._events = self._bars.add_task(f"{title}: events", total=None)
        self._trials = self._bars.add_task("trials", total=None, visible=False)
        self._steps = self._bars.add_task("steps", total=None, visible=False)

    def __enter__(self) -> "TerminalProgress":
        self._bars.start()
        return self

    def __exit__(self, *exception) -> None:
        self._bars.stop()

    def event(self, index: int, events: int | None, description: str) -> None:
        """An event begins."""
        self._bars.update(
            self._events,
            completed=max(index, 0),
            total=events,
            description=f"{self._title}: {description}",
        )
        self._bars.update(self._trials, visible=False)
        self._bars.update(self._steps, visible=False)

    def trial(self, trial: int, trials: int) -> None:
        """`trial` trials are done."""
        self._bars.update(self._trials, completed=trial, total=trials, visible=True)
        self._bars.reset(self._steps, visible=False)

    def step(self, step: int, steps: int) -> None:
        """`step` steps are done, of the trial or of all running trials."""
        self._bars.update(self._steps, completed=step, total=steps, visible=True)

    def result(self, text: str) -> None:
        """A task has a result."""
        self._bars.console.print(f"{self._title}: {text}", highlight=False)

    def stage(self, name: str, done: int = 0, total: int | None = None) -> None:
        """A stage begins, or goes on."""
        text = f"{self._title}: {name}"
        self._bars.update(self._events, completed=done, total=total, description=text)
        if self._lines and not self._bars.console.is_terminal and name != self._printed:
            self._printed = name
            print(text, file=sys.stderr)


_NOT_UTF_8 = re.compile("[\udc80-\udcff]")  # as Python keeps a byte of a name that is not UTF-8


def as_text(name: str) -> str:
    """Returns the name of a file as UTF-8 text: bytes that are not UTF-8 are escaped.

    >>> import os
    >>> as_text(os.fsdecode(b"caf\\xe9.png"))
    'caf\\\\xe9.png'
    """
    return _NOT_UTF_8.sub(lambda match: f"\\x{ord(match[0]) - 0xDC00:02x}", name)
