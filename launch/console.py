"""The console command `nevis-stream`, which starts every command of this package by its name."""

import ast
import re
import runpy
import sys
from importlib.metadata import version
from pathlib import Path

from nevis_stream.errors import unknown
from nevis_stream.launch import entry


def main() -> None:
    """Starts the command that the first word names."""
    entry.use_console_command()
    words = entry.arguments()
    if words == ["--version"]:
        print(f"{entry.CONSOLE_COMMAND} {version('nevis_stream')}")
        return
    if not words or words[0] not in names():
        entry.guard(lambda: _no_command(words))
        return
    sys.argv[1:] = words[1:]
    runpy.run_module(f"nevis_stream.{module(words[0])}", run_name="__main__", alter_sys=True)


def names() -> list[str]:
    """Returns the names of the commands: the modules of this package that can be run."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return [file.stem.replace("_", "-") for file in files if "\nif __name__ ==" in file.read_text()]


def module(name: str) -> str:
    """Returns the module of a command, as it is started in a checkout.

    >>> module("transfer-matrix")
    'launch.transfer_matrix'
    """
    return f"launch.{name.replace('-', '_')}"


def _no_command(words: list[str]) -> None:
    see = f"See: {entry.CONSOLE_COMMAND} --help"
    if not words:
        entry.fail(f"name a command: {', '.join(names())}.\n{see}")
    if not entry.asks_for_help(words[:1]):
        entry.fail(f"{unknown('command', words[0], names())}\n{see}")
    width = max(map(len, names()))
    rows = "\n".join(f"  {name:{width}}  {_summary(name)}" for name in names())
    entry.show_help(
        "Trains learners on streams of vision tasks and compares their error and cumulative FLOPs."
        "\n\n"
        f"Usage: {entry.CONSOLE_COMMAND} COMMAND\n\nCommands:\n{rows}\n\n"
        f"Help of a command: {entry.CONSOLE_COMMAND} COMMAND --help"
    )


def _summary(name: str) -> str:
    """Returns the first clause of a command's docstring."""
    file = Path(__file__).parent / f"{name.replace('-', '_')}.py"
    docstring = ast.get_docstring(ast.parse(file.read_text())) or ""
    sentence = " ".join(docstring.split("\n\n")[0].split())
    return re.split("[;:] ", sentence)[0].rstrip(".") + "."
