"""The console command `nevis-stream`, which starts every command of this package by its name."""

import runpy
import sys
from importlib.metadata import version

from nevis_stream.errors import unknown
from nevis_stream.launch import entry

COMMANDS = {
    "compare": "Compares two methods.",
    "data": "Lists, prepares, imports, verifies and shows data sets.",
    "demo": "Runs learners of increasing cost on the embedded stream and writes the report.",
    "dynamic-benchmark": "Dynamic benchmarks.",
    "evaluate": "Evaluates new models and samples at a fraction of the cost.",
    "label": "Tests trained models on a pool of images without labels, with as few labels as"
    " possible.",
    "pretrain": "Makes the file of pre-trained weights that pt_isup, pt_ext, pt_mt and pt_ft start"
    " from.",
    "report": "Writes report.html and its tables (csv, LaTeX) from run directories.",
    "run": "Runs one learner over one stream into a run directory.",
    "slurm": "Sends runs to a SLURM cluster with submitit.",
    "sweep": "Runs every combination of some values of a config, each in its own directory.",
    "transfer-matrix": "Trains every task from every earlier task's independent predictor.",
    "watch": "Shows the progress of runs.",
}
"""The commands, each a module of this package, with a line for people."""


def main() -> None:
    """Starts the command that the first word names."""
    entry.use_console_command()
    words = entry.get_arguments()
    if words == ["--version"]:
        print(f"{entry.CONSOLE_COMMAND} {version('nevis_stream')}")
        return
    if not words or words[0] not in COMMANDS:
        entry.guard(lambda: _no_command(words))
        return
    sys.argv[1:] = words[1:]
    runpy.run_module(f"nevis_stream.{find_module(words[0])}", run_name="__main__", alter_sys=True)


def find_module(name: str) -> str:
    """Returns the module of a command, as it is started in a checkout.

    >>> find_module("transfer-matrix")
    'launch.transfer_matrix'
    """
    return f"launch.{name.replace('-', '_')}"


def _no_command(words: list[str]) -> None:
    see = f"See: {entry.CONSOLE_COMMAND} --help"
    if not words:
        entry.fail(f"name a command: {', '.join(COMMANDS)}.\n{see}")
    if not entry.asks_for_help(words[:1]):
        entry.fail(f"{unknown('command', words[0], COMMANDS)}\n{see}")
    width = max(map(len, COMMANDS))
    rows = "\n".join(f"  {name:{width}}  {summary}" for name, summary in COMMANDS.items())
    entry.show_help(
        "Trains learners on streams of vision tasks and compares their error and cumulative FLOPs."
        "\n\n"
        f"Usage: {entry.CONSOLE_COMMAND} COMMAND\n\nCommands:\n{rows}\n\n"
        f"Help of a command: {entry.CONSOLE_COMMAND} COMMAND --help"
    )
