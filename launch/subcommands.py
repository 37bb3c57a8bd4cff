"""Subcommands, `python -m launch.COMMAND SUBCOMMAND`, each with its own flags and --help."""

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from absl.flags import FlagValues

from nevis_stream.errors import unknown
from nevis_stream.launch import entry


@dataclass(frozen=True)
class Subcommand:
    """A subcommand; define its flags with `flag_values=subcommand.flags`.

    Attributes:
      name: the word that selects it.
      main: called with the words that are not flags.
      summary: what it does, in one line.
      examples: arguments of working commands.
      words: what the words that are not flags mean, for example "FILE" or "FILE ..."; empty if it
        takes none.
      needs: names of the flags that are required.
      details: further sentences for its --help.
      lists: returns the end of its --help, for example the valid values of a flag.
      flags: its flags.
    """

    name: str
    main: Callable[[Sequence[str]], None]
    summary: str
    examples: Sequence[str]
    words: str = ""
    needs: Sequence[str] = ()
    details: str = ""
    lists: Callable[[], str] = str
    flags: FlagValues = field(default_factory=FlagValues)

    def help(self, command: str) -> str:
        """Returns the text of its --help.

        Args:
          command: the words before the subcommand's name, for example `python -m launch.data`.
        """
        usage = " ".join(filter(None, (command, self.name, self.words, "[flags]")))
        about = textwrap.fill(f"{self.summary} {self.details}".strip(), entry.WIDTH)
        examples = "\n".join(f"  {command} {example}" for example in self.examples)
        listed = [self.flags[name] for name in self.flags]
        return (
            f"{about}\n\nUsage: {usage}\n\nExamples:\n{examples}\n\n{entry.flag_help(listed)}"
            f"{self.lists()}"
        )

    def problem(self, words: Sequence[str]) -> str:
        """Returns a message about missing or extra words and flags; empty if there are none."""
        for flag in (self.flags[name] for name in self.needs):
            if flag.value in (None, "", []):
                return f"{self.name} needs --{flag.name}: {flag.help}"
        if words and not self.words:
            return f"{self.name} takes flags only, not {words[0]!r}."
        if self.words.endswith("...") and not words:
            return f"{self.name} needs at least one {self.words.removesuffix(' ...')}."
        if self.words and not self.words.endswith("...") and len(words) != 1:
            return f"{self.name} takes one {self.words}, not {len(words)}."
        return ""


def define(make: Callable, subcommands: Sequence[Subcommand], *words, **options) -> None:
    """Defines one flag of several subcommands.

    Args:
      make: absl's function, for example `flags.DEFINE_string`.
      subcommands: those that have the flag.
      *words, **options: arguments of `make`: name, default, help and so on.
    """
    for each in subcommands:
        make(*words, **options, flag_values=each.flags)


def start(
    about: str,
    subcommands: Sequence[Subcommand],
    explain: Callable[[Exception], None] = lambda error: None,
) -> None:
    """Starts the subcommand that the process's arguments name.

    Args:
      about: the beginning of the help, about all of them.
      subcommands: the subcommands.
      explain: called with an exception that a subcommand raised; it may end the process with a
        better message.
    """
    entry.guard(lambda: _start(about, {each.name: each for each in subcommands}, explain))


def _start(about: str, subcommands: dict[str, Subcommand], explain) -> None:
    words = entry.arguments()
    command = entry.command()
    if words and words[0] in subcommands:
        chosen = subcommands[words[0]]
        if entry.asks_for_help(words[1:]):
            entry.show_help(chosen.help(command))
        rest = entry.parse(words[1:], chosen.flags, f"{command} {chosen.name}")
        if problem := chosen.problem(rest):
            entry.fail(f"{problem}\nSee: {command} {chosen.name} --help")
        try:
            chosen.main(rest)
        except Exception as error:
            explain(error)
            raise
        return
    if entry.asks_for_help(words):
        width = max(map(len, subcommands))
        rows = "\n".join(f"  {name:{width}}  {each.summary}" for name, each in subcommands.items())
        entry.show_help(
            f"{about.strip()}\n\nUsage: {command} SUBCOMMAND [flags]\n\nSubcommands:\n{rows}\n\n"
            f"Flags and examples of each: {command} SUBCOMMAND --help\n"
        )
    if not words:
        problem = f"name a subcommand: {', '.join(subcommands)}."
    elif words[0].startswith("-"):
        problem = f"{words[0]}: flags come after the subcommand ({', '.join(subcommands)})."
    else:
        problem = unknown("subcommand", words[0], subcommands)
    entry.fail(f"{problem}\nSee: {command} --help")
