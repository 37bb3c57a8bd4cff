"""What the entry points with a --config share: the config files there are, and messages that teach
their keys.
"""

import os
import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from absl import flags

from launch import entry

_EXPERIMENTS = Path(__file__).resolve().parents[1] / "experiments"


def configs() -> list[str]:
    """Paths of the learners' configs."""
    return _below("configs")


def studies() -> list[str]:
    """Paths of the studies' configs."""
    return _below("studies")


def _below(folder: str) -> list[str]:
    return sorted(
        f"experiments/{folder}/{path.name}" for path in (_EXPERIMENTS / folder).glob("[!_]*.py")
    )


def given_file() -> str:
    """Returns the file that --config names; without one that exists the command ends."""
    flag = flags.FLAGS["config"]
    file = flag.config_filename if flag.present else None
    if not file:
        entry.fail(f"--config is missing; one of: {', '.join(configs())}.")
    if not Path(file.partition(":")[0]).is_file():
        entry.fail(
            f"--config={file}: no such file; one of: {', '.join(configs())}, or a file of your own."
        )
    if told := _no_config(flag):
        entry.fail(told)
    return file


def use_data_dir(data_dir: str | None) -> None:
    """Takes prepared data from there, where a folder is given."""
    if data_dir:
        os.environ["NEVIS_STREAM_DATA"] = str(Path(data_dir).absolute())


def check_run_dir(run_dir: str) -> None:
    """Raises: BadInput: a file stands where the directory of a run is to be made."""
    from nevis_stream.errors import BadInput

    for place in (Path(run_dir), *Path(run_dir).parents):
        if place.exists() and not place.is_dir():
            raise BadInput(
                f"--run_dir={run_dir}: {place} is a file; a directory is expected, runs/my-run say."
            )


def load(file: str) -> Any:
    """Returns the config that `FILE` or `FILE:ARGUMENT` makes.

    Raises:
      BadInput: the file has no get_config, or raises something; the message names the line.
    """
    from nevis_stream.errors import BadInput

    path, _, argument = file.partition(":")
    try:
        made = runpy.run_path(path).get("get_config")
        if callable(made):
            return made(*([argument] if argument else []))
    except Exception as error:  # a user's file may raise anything
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == path
        ]
        what = str(error)
        if isinstance(error, SyntaxError) and error.filename == path:
            lines, what = [error.lineno], error.msg
        where = f"{path}, line {lines[-1]}" if lines else path
        raise BadInput(f"{where}: {type(error).__name__}: {what}") from None
    raise BadInput(
        f"{path}: it has no function get_config; experiments/configs/indep.py shows one."
    )


def define(what: str) -> flags.FlagHolder:
    """Defines --config; that reads a --flagfile among the words already, so a missing one ends the
    command here.
    """
    from ml_collections import config_flags

    try:
        return config_flags.DEFINE_config_file("config", None, what)
    except flags.Error as error:
        entry.fail(str(error).removeprefix("ERROR:: "))


def parsed(words: Sequence[str]) -> Any:
    """Returns the config that a command's words give; other flags are not looked at.

    Raises:
      BadInput: a file that fails or gives no config, an unknown key, or a value of another type.
    """
    from ml_collections import config_flags

    from nevis_stream.errors import BadInput

    values, argv = flags.FlagValues(), entry.config_first(["", *words])
    try:
        config_flags.DEFINE_config_file("config", None, "", values, sys_argv=argv)
        values(argv, known_only=True)
    except Exception as error:  # a config file may raise anything
        raise BadInput(explain(error, words).removeprefix("ERROR:: ")) from None
    if told := _no_config(values["config"]):
        raise BadInput(told)
    return values["config"].value


def _no_config(flag: Any) -> str | None:
    """What to say of a --config whose file gives something else than a config."""
    from ml_collections import ConfigDict

    if isinstance(flag.value, ConfigDict):
        return None
    made = "nothing" if flag.value is None else f"a {type(flag.value).__name__}"
    return (
        f"--config={flag.config_filename}: its get_config returns {made};"
        " experiments/configs/indep.py shows one."
    )


def explain(error: Exception, given: Sequence[str] | None = None) -> str:
    """Names the line of a config file that fails, and the valid keys when a `--config.KEY=VALUE`
    has no place in the config.

    `given`: the words of the command; None: those of this one.
    """
    from experiments import run_config
    from nevis_stream.errors import NevisStreamError, unknown

    given = sys.argv[1:] if given is None else given
    words = [word.lstrip("-").partition("=") for word in given if word.startswith("-")]
    files = [value for name, _, value in words if name == "config"]
    if not files or not Path(files[-1].partition(":")[0]).is_file():
        return str(error)
    try:
        config = load(files[-1])
    except NevisStreamError as bad:
        return str(bad)
    valid = dict(run_config.flat(config))
    overridden = {
        name.removeprefix("config."): value
        for name, _, value in words
        if name.startswith("config.")
    }
    for key, value in overridden.items():
        if key not in valid:
            return unknown("config key", key, valid)
        if f"--config.{key}={value}" in str(error):
            return f"--config.{key}={value}: {run_config.not_of_type(config, key, value)}"
    return str(error)
