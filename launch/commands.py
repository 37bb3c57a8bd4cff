"""Commands that are sent away as jobs: taken apart, checked, one for each seed."""

import shlex
import warnings
from collections.abc import Sequence
from pathlib import Path

from launch import config_flag, console
from nevis_stream.errors import BadInput, NevisStreamError, RunWarning, unknown

SEPARATOR = "+"  # a word by itself between two commands
READERS = ("launch.evaluate",)  # their --run_dir names runs that are read


def jobs(words: Sequence[str]) -> list[list[str]]:
    """Returns the commands that are jobs of their own; `--seeds=N` of launch.run becomes N of them.

    Args:
      words: one or more commands, each a module and its flags, with `+` between them.

    Raises:
      BadInput: no command, an unknown module, a missing config or run_dir, one run_dir twice, or a
        file in its place.
    """
    commands = _split(words)
    found = [
        job
        for command in commands
        for job in (_by_seed(command) if _module(command) == "launch.run" else [command])
    ]
    directories = [
        directory
        for job in found
        if _module(job) not in READERS
        and (directory := _taken(job, ["run_dir"])[0].get("run_dir")) is not None
    ]
    places = [Path(directory).resolve() for directory in directories]
    for directory, place in zip(directories, places, strict=True):
        config_flag.check_run_dir(directory)
        if places.count(place) > 1:
            raise BadInput(
                f"--run_dir={directory}: two jobs would write this directory; give each command its"
                " own."
            )
    return found


def check_configs(found: Sequence[Sequence[str]]) -> None:
    """Builds the learner of every launch.run and looks for its stream's name, so that no queue ends
    in a mistake of these.

    Raises:
      BadInput: a config that cannot be followed; the message names the value and the valid choices.
    """
    from experiments import run_config
    from nevis_stream.streams.rows import stream_rows

    checked = set()
    for job in found:
        words = job[1:]
        but_seed = tuple(_taken(words, ["run_dir", "config.seed"])[1])
        if job[0] != "launch.run" or but_seed in checked:
            continue
        checked.add(but_seed)
        try:
            config = config_flag.split(words).config()
            weights = config.get("pretrained", {}).get("path")
            # another job may make them, or only the nodes may see them
            if weights and not Path(weights).exists():
                warnings.warn(
                    f"{weights}: not there yet, so this is not checked: {shlex.join(job)}",
                    RunWarning,
                    stacklevel=2,
                )
                continue
            config = run_config.resolve(config)
            run_config.build(config)
            if not config.stream.endswith(".csv"):
                stream_rows(config.stream)
        except NevisStreamError as error:
            raise BadInput(f"{shlex.join(job)}: {error}") from None


def _split(words: Sequence[str]) -> list[list[str]]:
    commands: list[list[str]] = [[]]
    for word in words:
        if word == SEPARATOR:
            commands.append([])
        else:
            commands[-1].append(word)
    for command in commands:
        if command and command[0] in console.names():
            command[0] = console.module(command[0])
    if not all(commands):
        where = "" if len(commands) == 1 else f" before or after a {SEPARATOR!r}"
        raise BadInput(
            f"no command{where}: write it after --, for example launch.run --config=… --run_dir=…."
        )
    return commands


def _module(command: Sequence[str]) -> str:
    valid = [console.module(name) for name in console.names() if name != "slurm"]
    if command[0] not in valid:
        raise BadInput(unknown("module", command[0], valid))
    return command[0]


def _by_seed(command: Sequence[str]) -> list[list[str]]:
    """One command of launch.run for each of its seeds, in RUN_DIR/seed-N as launch.run has it."""
    values, rest = _taken(command, ["seeds", "run_dir"])
    try:
        config = config_flag.split(rest).config()
    except BadInput as error:
        raise BadInput(f"{shlex.join(command)}: {error}") from None
    if "run_dir" not in values:
        raise BadInput(
            f"{shlex.join(command)}: --run_dir is missing: the directory of the run, for example"
            " runs/my-run."
        )
    count = _whole("seeds", values.get("seeds", "1"), 1)
    if count == 1:
        return [list(command)]
    _, rest = _taken(rest, ["config.seed"])
    directory = Path(values["run_dir"])
    return [
        [*rest, f"--config.seed={seed}", f"--run_dir={directory / f'seed-{seed}'}"]
        for seed in range(config.seed, config.seed + count)
    ]


def _whole(flag: str, value: str, least: int) -> int:
    if not value.isdecimal() or int(value) < least:
        raise BadInput(f"--{flag}={value}: it must be a whole number, {least} or more.")
    return int(value)


def _taken(command: Sequence[str], names: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The values of some flags, the last one given of each, and the words that are left without
    them.
    """
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
