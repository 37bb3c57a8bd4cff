"""The console command `nevis-stream`: every command of this package by name, from any directory."""

import ast
import runpy
import sys
from pathlib import Path

from launch import entry
from nevis_stream.errors import unknown


def main() -> None:
    """Starts the command that the first word names."""
    entry.use_console_command()
    words = entry.arguments()
    name = words[0].replace("-", "_") if words else ""
    if f"launch.{name}" not in modules():
        entry.guard(lambda: _no_command(words))
        return
    sys.argv[1:] = words[1:]
    runpy.run_module(f"launch.{name}", run_name="__main__", alter_sys=True)


def modules() -> list[str]:
    """Returns the modules of this package that can be started."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return [f"launch.{file.stem}" for file in files if "\nif __name__ ==" in file.read_text()]


def _no_command(words: list[str]) -> None:
    summaries = {
        module.removeprefix("launch.").replace("_", "-"): _summary(module) for module in modules()
    }
    if not words:
        entry.fail(f"name a command: {', '.join(summaries)}.\nSee: {entry.CONSOLE_COMMAND} --help")
    if not entry.asks_for_help(words[:1]):
        problem = unknown("command", words[0], summaries)
        entry.fail(f"{problem}\nSee: {entry.CONSOLE_COMMAND} --help")
    width = max(map(len, summaries))
    rows = "\n".join(f"  {name:{width}}  {summary}" for name, summary in summaries.items())
    entry.show_help(
        "Sequential learning on streams of vision tasks: error against cumulative FLOPs.\n\n"
        f"Usage: {entry.CONSOLE_COMMAND} COMMAND\n\nCommands:\n{rows}\n\n"
        f"Each has its own help: {entry.CONSOLE_COMMAND} COMMAND --help"
    )


def _summary(module: str) -> str:
    """Returns the first clause of a module's docstring."""
    file = Path(__file__).parent / f"{module.removeprefix('launch.')}.py"
    docstring = ast.get_docstring(ast.parse(file.read_text())) or ""
    sentence = " ".join(docstring.split("\n\n")[0].split())
    return sentence.partition("; ")[0].rstrip(".") + "."
