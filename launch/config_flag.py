"""What the entry points with a --config share: the config files there are, and messages that teach their keys."""

import os
import runpy
import sys
from pathlib import Path

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
    return sorted(f"experiments/{folder}/{path.name}" for path in (_EXPERIMENTS / folder).glob("[!_]*.py"))


def given_file() -> str:
    """Returns the file that --config names; without one that exists the command ends."""
    flag = flags.FLAGS["config"]
    file = flag.config_filename if flag.present else None
    if not file:
        entry.fail(f"--config is missing; one of: {', '.join(configs())}.")
    if not Path(file).is_file():
        entry.fail(f"--config={file}: no such file; one of: {', '.join(configs())}, or a file of your own.")
    return file


def use_data_dir(data_dir: str | None) -> None:
    """Takes prepared data from there, where a folder is given."""
    if data_dir:
        os.environ["NEVIS_STREAM_DATA"] = str(Path(data_dir).absolute())


def explain(error: Exception) -> str:
    """Names the valid keys when a `--config.KEY=VALUE` has no place in the config."""
    from experiments import run_config
    from nevis_stream.errors import unknown

    words = [word.lstrip("-").partition("=") for word in sys.argv[1:] if word.startswith("-")]
    files = [value for name, _, value in words if name == "config"]
    if not files or not Path(files[-1]).is_file():
        return str(error)
    config = runpy.run_path(files[-1])["get_config"]()
    valid = dict(run_config.flat(config))
    given = {name.removeprefix("config."): value for name, _, value in words if name.startswith("config.")}
    for key, value in given.items():
        if key not in valid:
            return unknown("config key", key, valid)
        if f"--config.{key}={value}" in str(error):
            kind = run_config.type_of(config, key).__name__
            return f"--config.{key}={value}: the value must be of type {kind} (here: {valid[key]})."
    return str(error)
