"""Studies with two commands: `run` adds repetitions, `table` prints what is there."""

import sys
from collections.abc import Callable
from pathlib import Path

from absl import app


def start(run: Callable[[], None], table: Callable[[], None]) -> None:
    """Calls what the command line names, after its flags are parsed; else prints the usage."""

    def main(words) -> None:
        commands = {"run": run, "table": table}
        if len(words) != 2 or words[1] not in commands:
            name = Path(words[0]).stem
            sys.exit(f"usage: python -m benchmarks.{name} {'|'.join(commands)} [flags]")
        commands[words[1]]()

    app.run(main)
