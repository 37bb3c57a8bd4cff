"""What commands share: flags, each with one meaning; subcommands, `python -m launch.COMMAND
SUBCOMMAND`, each with its own flags and --help; and how tables and numbers are printed.
"""

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from absl import flags
from absl.flags import FlagHolder, FlagValues

from nevis_stream import extensions
from nevis_stream.cost.meter import format_engineering
from nevis_stream.errors import BadInput, look_up, unknown
from nevis_stream.launch import entry
from nevis_stream.terminal import Console

if TYPE_CHECKING:  # --help need not wait for what they import
    from nevis_stream.dynamic_evaluation.estimates import SampleGroup
    from nevis_stream.evaluation_cache.records import Imported
    from nevis_stream.executor import Executor
    from nevis_stream.queries.oracle import Estimate

flags.disclaim_key_flags()  # they belong to the command that defines them with these functions


def define_config() -> FlagHolder:
    """Defines --config; `config_flag.get_words().config()` is its value."""
    return flags.DEFINE_string(
        "config", None, "Name of a learner, or path of a config file (PATH.py)."
    )


def define_run_dir(subject: str = "run") -> FlagHolder:
    """Defines --run_dir, the directory of a run or of another `subject`."""
    return flags.DEFINE_string(
        "run_dir", None, f"Directory of the {subject}; created if missing, continued if it exists."
    )


def define_seeds() -> FlagHolder:
    """Defines --seeds."""
    return flags.DEFINE_integer(
        "seeds",
        1,
        "Number of runs of a config, with consecutive seeds from config.seed, each in a"
        " directory seed-N.",
        lower_bound=1,
    )


def define_dry_run(printed: str) -> FlagHolder:
    """Defines --dry_run, which prints something instead of doing it."""
    return flags.DEFINE_bool("dry_run", False, f"Only print {printed}.")


def define_stream(default: str | None, flag_values: FlagValues = flags.FLAGS) -> FlagHolder:
    """Defines --stream, the stream that a command works on."""
    return flags.DEFINE_string(
        "stream", default, "Name of a stream, or path of its csv.", flag_values=flag_values
    )


def define_recorded_stream(flag_values: FlagValues = flags.FLAGS) -> FlagHolder:
    """Defines --stream of a command that reads a run, whose directory holds no path of a csv."""
    return flags.DEFINE_string(
        "stream",
        None,
        "Path of the csv of the run's stream, if it was a csv; default: the stream of the name that"
        " the run recorded.",
        flag_values=flag_values,
    )


def define_data_dir(flag_values: FlagValues = flags.FLAGS) -> FlagHolder:
    """Defines --data_dir; after `entry.parse`, data are read from there."""
    return flags.DEFINE_string(
        "data_dir",
        None,
        "Directory of prepared data; default: NEVIS_STREAM_DATA, else the user's cache directory.",
        flag_values=flag_values,
    )


def define_checkpoint_seconds() -> FlagHolder:
    """Defines --checkpoint_seconds."""
    return flags.DEFINE_float(
        "checkpoint_seconds",
        30.0,
        "Shortest time in seconds between two saves of a trial's training state.",
        lower_bound=0.0,
    )


@dataclass(frozen=True)
class ExecutorFlags:
    """The flags that choose how trials run, and on how many devices each is trained."""

    name: FlagHolder
    options: Sequence[FlagHolder]
    devices: FlagHolder

    def build(self) -> "Executor":
        """Returns the executor.

        Raises:
          BadInput: no such executor, an option that it does not have, or several devices together
            with threads.
        """
        options = {flag.name: flag.value for flag in self.options if flag.value is not None}
        executor = make_executor(self.name.value, options)
        if self.devices.value > 1 and self.name.value == "threads":
            raise BadInput(
                "--devices cannot be combined with --executor=threads: programs that several"
                " threads start on several devices would wait for each other forever. Use"
                " --executor=inline or --executor=ray."
            )
        return executor

    def check_devices(self) -> None:
        """Refuses more devices than this machine has, where trials run in this process; not called
        by a dry run, which may be for another machine.

        Raises:
          BadInput: there are fewer devices than --devices.
        """
        if self.devices.value > 1 and self.name.value == "inline":
            import jax

            if self.devices.value > len(jax.devices()):
                raise BadInput(
                    f"--devices={self.devices.value}: this machine has {len(jax.devices())}"
                    f" ({jax.devices()[0].device_kind}). To try several devices on a CPU, set"
                    f" XLA_FLAGS=--xla_force_host_platform_device_count={self.devices.value}."
                )


def define_accept_changed_code() -> FlagHolder:
    """Defines --accept_changed_code."""
    return flags.DEFINE_bool(
        "accept_changed_code",
        False,
        "Continue a run although your own code has changed since it was begun.",
    )


def make_executor(name: str, options: Mapping[str, Any]) -> "Executor":
    """Returns the executor of this name.

    Args:
      name: the value of --executor.
      options: the values of its options by the names of their flags.

    Raises:
      BadInput: no such executor, or an option that it does not have.
    """
    from nevis_stream.launch.executors import EXECUTORS

    look_up(EXECUTORS, "executor", name)
    owned = {each: {field.name for field in fields(kind)} for each, kind in EXECUTORS.items()}
    for option in options:
        if option not in owned[name]:
            owners = [each for each in owned if option in owned[each]]
            raise BadInput(f"--{option} needs --executor={' or --executor='.join(owners)}.")
    return EXECUTORS[name](**options)


def define_executor() -> ExecutorFlags:
    """Defines --executor, the options of the executors, and --devices."""
    return ExecutorFlags(
        flags.DEFINE_string(
            "executor",
            "inline",
            "How trials run: inline (one by one), threads or ray (docs/executors.md).",
        ),
        (
            flags.DEFINE_integer(
                "workers",
                None,
                "Number of threads, for --executor=threads; default: the number of devices if there"
                " are several, else of cores.",
                lower_bound=1,
            ),
            flags.DEFINE_float(
                "cpus_per_trial",
                None,
                "Cores that a trial reserves, for --executor=ray; default: 1.",
                lower_bound=0.0,
            ),
            flags.DEFINE_float(
                "gpus_per_trial",
                None,
                "GPUs that a trial reserves and sees, for --executor=ray; default: 1 where this"
                " process sees GPUs, else 0.",
                lower_bound=0.0,
            ),
            flags.DEFINE_string(
                "ray_address",
                None,
                "Address of a running Ray cluster; default: one is started on this machine.",
            ),
        ),
        flags.DEFINE_integer(
            "devices", 1, "Number of devices that share each training batch.", lower_bound=1
        ),
    )


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
            f"{about}\n\nUsage: {usage}\n\nExamples:\n{examples}\n\n{entry.format_flags(listed)}"
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


def make_subcommand(
    package: str, function: str, name: str, summary: str, example: str, *others: str, **more
) -> Subcommand:
    """Returns a subcommand that calls a function with its words and flags.

    The module is imported when it is called, so that --help and quick subcommands do not wait for
    what others need.

    Args:
      package: of the command's modules, for example "launch.label_commands".
      function: MODULE.FUNCTION.
      name, summary: as of `Subcommand`.
      example, *others: its examples.
      **more: further attributes of `Subcommand`.
    """
    values = FlagValues()

    def main(words: Sequence[str]) -> None:
        module, _, called = function.partition(".")
        imported = import_module(f"nevis_stream.{package}.{module}")
        getattr(imported, called)(words, values)

    return Subcommand(name, main, summary, (example, *others), flags=values, **more)


def find_offered(command: str) -> tuple[Subcommand, ...]:
    """Returns the subcommands of a command that installed packages offer (`extensions`)."""
    if command not in extensions.list_offered(extensions.COMMANDS):
        return ()
    return tuple(extensions.load(extensions.COMMANDS, command))


def define(make: Callable, subcommands: Sequence[Subcommand], *words, **options) -> None:
    """Defines one flag of several subcommands.

    Args:
      make: absl's function, for example `flags.DEFINE_string`.
      subcommands: those that have the flag.
      *words, **options: arguments of `make`: name, default, help and so on.
    """
    for each in subcommands:
        make(*words, **options, flag_values=each.flags)


define_choice = partial(define, flags.DEFINE_enum)
define_list = partial(define, flags.DEFINE_list)
define_number = partial(define, flags.DEFINE_float)
define_repeated = partial(define, flags.DEFINE_multi_string)
define_switch = partial(define, flags.DEFINE_bool)
define_text = partial(define, flags.DEFINE_string)
define_whole = partial(define, flags.DEFINE_integer)


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
    words = entry.get_arguments()
    command = entry.get_command()
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
    absence = extensions.explain_absence(extensions.COMMANDS)  # of research
    if entry.asks_for_help(words):
        width = max(map(len, subcommands), default=0)
        rows = "\n".join(f"  {name:{width}}  {each.summary}" for name, each in subcommands.items())
        entry.show_help(
            f"{about.strip()}\n\nUsage: {command} SUBCOMMAND [flags]\n\nSubcommands:\n{rows}\n\n"
            f"Flags and examples of each: {command} SUBCOMMAND --help\n{absence}"
        )
    if not words:
        problem = f"name a subcommand: {', '.join(subcommands)}."
    elif words[0].startswith("-"):
        problem = f"{words[0]}: flags come after the subcommand ({', '.join(subcommands)})."
    else:
        problem = unknown("subcommand", words[0], subcommands)
    entry.fail(f"{problem}{absence}\nSee: {command} --help")


_WITHOUT_TERMINAL = 180  # columns; enough for every table
_MOST_GROUPS = 40  # rows of a table


def make_console() -> Console:
    """Returns a console on standard output; if that is no terminal, wide enough for every table."""
    return Console(width=None if Console().is_terminal else _WITHOUT_TERMINAL)


def format_estimate(estimate: "Estimate") -> tuple[str, str]:
    """Returns the cells of a table for an estimate, and for its interval or why there is none."""
    value = "–" if math.isnan(estimate.value) else f"{estimate.value:z.4f}"
    if math.isnan(estimate.low):
        return value, f"no interval: {estimate.reason}"
    return value, f"{estimate.low:z.4f} to {estimate.high:z.4f}"


def format_flops(value: float | None) -> str:
    """Returns FLOPs in engineering notation, or "unknown"."""
    return "unknown" if value is None else f"{format_engineering(value)} FLOPs"


def print_import(source: str, record: "Imported") -> None:
    """Prints what was understood of a file and what was left out."""
    for line in record.lines():
        print(f"{source}: {line}")


def print_groups(title: str, groups: "Sequence[SampleGroup]") -> None:
    """Prints the mean value of each group, over its models; nothing if there is a single group."""
    if len(groups) < 2:
        return
    from rich.table import Table

    table = Table(title=title)
    directions = ["better"] if any(group.lower for group in groups) else []
    for column in ("data set", "group", "samples", "range", *directions, "mean"):
        table.add_column(column, justify="right" if column in ("samples", "mean") else "left")
    for group in groups[:_MOST_GROUPS]:
        ends = f"{group.low:g} to {group.high:g}"
        mean = "unknown" if math.isnan(group.mean) else f"{group.mean:.4f}"
        better = ["lower" if group.lower else "higher"] if directions else []
        cells = group.dataset or "–", group.group or "–", f"{group.samples:,}", ends
        table.add_row(*cells, *better, mean)
    make_console().print(table)
    if len(groups) > _MOST_GROUPS:
        print(f"and {len(groups) - _MOST_GROUPS} more groups")
