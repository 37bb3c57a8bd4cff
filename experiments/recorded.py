"""What a run directory says about its learner, as plain values.

The learner is built only where it is needed, and a class outside this project only where it is
trusted.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_collections

from experiments import run_config
from learners import fields
from learners.table import TABLE
from nevis_stream.errors import BadInput
from nevis_stream.learner import Learner
from nevis_stream.run_directory import config as config_file

_OURS = ("learners",)


def read_config(run_dir: Path) -> dict[str, Any]:
    """Returns the values of a run directory's config.json; nothing that it names is imported.

    Raises:
      BadInput: it holds no config of a run that a command made.
    """
    try:
        values = dict(config_file.read_config(run_dir).values)
    except BadInput:
        values = {}
    if isinstance(values.get("learner"), str) and isinstance(values.get("stream"), str):
        return values
    raise BadInput(
        f"{run_dir}: not the directory of a run that launch.run made (no config.json of a learner)."
    )


def load_learner(config: Mapping[str, Any], trust: Sequence[str] = ()) -> Learner:
    """Builds the learner of a run directory, of this format or of the one before it.

    Args:
      config: what `read_config` returns.
      trust: modules and packages outside this project that may be imported.

    Raises:
      BadInput: a class outside this project that is not trusted, or a learner that only Python code
        can build.
    """
    learner = config["learner"]
    module, colon, _ = learner.partition(":")
    if not colon and learner not in TABLE:
        raise BadInput(
            f"learner {learner!r} has no name here: its run was started from Python code, which"
            " alone can build it."
        )
    if colon and not any(_inside(module, package) for package in (*_OURS, *trust)):
        raise BadInput(
            f"learner {learner} is a class outside this project, and using it runs its code. If"
            f" you trust it, add --trust={module}."
        )
    return run_config.learner_of(learner, _known(config, learner))


def to_config(config: Mapping[str, Any]) -> ml_collections.ConfigDict:
    """Returns the config of a run directory of a named learner, to run it again with changes."""
    result = run_config.default(config["learner"])
    result.update_from_flattened_dict(_known(config, config["learner"]))
    return result


def _known(config: Mapping[str, Any], learner: str) -> dict[str, Any]:
    """Returns the recorded values of the learner's fields; what its name sets fills open ones."""
    values, fields_by_name = fields.flat(config), run_config.fields_of(learner)
    usual = TABLE[learner].values if learner in TABLE else {}
    recorded = {
        name: value
        for name, value in values.items()
        if name in fields_by_name and value is not None
    }
    return dict(usual) | {
        name: fields_by_name[name].check(value) for name, value in recorded.items()
    }


def _inside(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")
