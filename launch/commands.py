"""The commands that become jobs of a cluster: split, checked, and one for each seed."""

import os
import shlex
import warnings
from collections.abc import Sequence
from pathlib import Path

from nevis_stream.configs import run_config
from nevis_stream.errors import BadInput, NevisStreamError, RunWarning, unknown
from nevis_stream.launch import config_flag, console
from nevis_stream.streams.named_streams import list_stream_rows

SEPARATOR = "+"  # a word by itself between two commands
READERS = ("launch.evaluate",)  # commands whose --run_dir names runs that they read


def list_jobs(words: Sequence[str]) -> list[list[str]]:
    """Returns one command for each job; a launch.run with `--seeds=N` becomes N commands.

    Args:
      words: one or more commands, each a module and its flags, separated by `+`.

    Raises:
      BadInput: no command, an unknown module, a missing config or run_dir, a run_dir that two jobs
        would write, or a file in its place.
    """
    commands = [
        command
        for words_of_command in _split(words)
        for command in (
            _by_seed(words_of_command)
            if _module(words_of_command) == "launch.run"
            else [words_of_command]
        )
    ]
    directories = [
        directory
        for command in commands
        if _module(command) not in READERS
        and (directory := _separate(command, ["run_dir"])[0].get("run_dir")) is not None
    ]
    paths = [Path(os.path.realpath(directory)) for directory in directories]
    for directory, path in zip(directories, paths, strict=True):
        config_flag.check_run_dir(directory)
        if paths.count(path) > 1:
            raise BadInput(
                f"--run_dir={directory}: two jobs would write to this directory; give each command"
                " its own."
            )
    return commands


def check_configs(commands: Sequence[Sequence[str]]) -> None:
    """Checks the learner and the stream of every launch.run, before jobs wait in a queue.

    Raises:
      BadInput: an invalid config; the message names the value and the valid choices.
    """
    checked = set()
    for command in commands:
        words = command[1:]
        without_seed = tuple(_separate(words, ["run_dir", "config.seed"])[1])
        if command[0] != "launch.run" or without_seed in checked:
            continue
        checked.add(without_seed)
        try:
            config = config_flag.split_words(words).config()
            weights = config.get("pretrained", {}).get("path")
            # another job may write this file, or only the nodes may see it
            if weights and not Path(weights).exists():
                warnings.warn(
                    f"{weights} does not exist yet, so this command is not checked:"
                    f" {shlex.join(command)}",
                    RunWarning,
                    stacklevel=2,
                )
                continue
            config = run_config.resolve(config)
            config.build()
            if not config.stream.endswith(".csv"):
                list_stream_rows(config.stream)
        except NevisStreamError as error:
            raise BadInput(f"{shlex.join(command)}: {error}") from None


def _split(words: Sequence[str]) -> list[list[str]]:
    commands: list[list[str]] = [[]]
    for word in words:
        if word == SEPARATOR:
            commands.append([])
        else:
            commands[-1].append(word)
    for command in commands:
        if command and command[0] in console.COMMANDS:
            command[0] = console.find_module(command[0])
    if not all(commands):
        place = "" if len(commands) == 1 else f" before or after a {SEPARATOR!r}"
        raise BadInput(
            f"a command is missing{place}: write it after --, for example launch.run"
            " --config=indep --run_dir=runs/indep."
        )
    return commands


def _module(command: Sequence[str]) -> str:
    valid = [console.find_module(name) for name in console.COMMANDS if name != "slurm"]
    if command[0] not in valid:
        raise BadInput(unknown("module", command[0], valid))
    return command[0]


def _by_seed(command: Sequence[str]) -> list[list[str]]:
    """Returns a launch.run command for each seed, with the directories that launch.run uses."""
    values, words = _separate(command, ["seeds", "run_dir"])
    try:
        config = config_flag.split_words(words).config()
    except BadInput as error:
        raise BadInput(f"{shlex.join(command)}: {error}") from None
    if "run_dir" not in values:
        raise BadInput(
            f"{shlex.join(command)}: --run_dir is missing: the directory of the run, for example"
            " runs/my-run."
        )
    seeds = values.get("seeds", "1")
    if not seeds.isdecimal() or int(seeds) < 1:
        raise BadInput(f"--seeds={seeds}: it must be a whole number, 1 or more.")
    if int(seeds) == 1:
        return [list(command)]
    _, words = _separate(words, ["config.seed"])
    directory = Path(values["run_dir"])
    return [
        [*words, f"--config.seed={seed}", f"--run_dir={directory / f'seed-{seed}'}"]
        for seed in range(config.seed, config.seed + int(seeds))
    ]


def _separate(command: Sequence[str], names: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Returns the values of some flags, the last one of a repeated flag, and the other words."""
    values: dict[str, str] = {}
    rest: list[str] = []
    words = iter(command)
    for word in words:
        name, equals, value = word.lstrip("-").partition("=")
        if not word.startswith("-") or name not in names:
            rest.append(word)
        else:
            values[name] = value if equals else next(words, "")
    return values, rest
