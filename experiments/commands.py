"""What the scripts' own command lines share, and the commands that they run."""

import argparse
import shlex
import subprocess
import sys
from collections.abc import Sequence
from typing import Any


def make_parser(doc: str | None) -> argparse.ArgumentParser:
    """Returns the parser of a script, whose help begins with its docstring, as it is written."""
    return argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def positive(text: str) -> int:
    """Returns the whole number from 1 that a flag's text is.

    Raises:
      argparse.ArgumentTypeError: the text is none.
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1")
    return int(text)


def call(command: Sequence[object], **options: Any) -> None:
    """Runs a command, and prints nothing of it but its messages on stderr.

    Args:
      command: its words.
      options: of subprocess.run.

    Raises:
      SystemExit: the command failed; its own message stands above.
    """
    words = [str(word) for word in command]
    options = {"stdout": subprocess.DEVNULL} | options
    if status := subprocess.run(words, check=False, **options).returncode:
        sys.exit(f"failed with status {status}: {shlex.join(words)}")
