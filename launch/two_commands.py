"""Studies with two commands: `run` adds repetitions, `table` prints what is there."""

from collections.abc import Callable, Sequence

from nevis_stream.errors import BadInput, unknown
from nevis_stream.launch import entry


def start(run: Callable[[], None], table: Callable[[], None]) -> None:
    """Calls what the command line names, after its flags are parsed."""

    def main(words: Sequence[str]) -> None:
        commands = {"run": run, "table": table}
        name = entry.take_only_word(words, " or ".join(commands))
        if name not in commands:
            raise BadInput(unknown("command", name, commands))
        commands[name]()

    entry.start(main, words="run|table")
