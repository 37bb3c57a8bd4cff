"""The config of a run directory: read as plain values, and built into a learner if that is needed.

A class outside this project is imported only if the user trusts it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_collections

from nevis_stream import learners, user_code
from nevis_stream.configs import run_config
from nevis_stream.errors import BadInput
from nevis_stream.learner import Learner
from nevis_stream.learners.table import TABLE
from nevis_stream.trained_runs.predictors import KeptPredictor, KeptRun, find_predictor


def load_learner(config: Mapping[str, Any], trust: Sequence[str] = ()) -> Learner:
    """Builds the learner of a run directory of this format or the previous one.

    Args:
      config: the result of `run_directory.config.read_values`.
      trust: modules and packages outside this project that may be imported.

    Raises:
      Untrusted: the learner is a class outside this project that is not trusted.
      BadInput: it can only be built by the user's Python code.
    """
    learner = config["learner"]
    if ":" not in learner and learner not in TABLE:
        raise BadInput(
            f"learner {learner!r} is not in the table of learners: its run was started from Python"
            " code, and only that code can build it."
        )
    if ":" in learner:
        name = user_code.get_present_name(learner)
        user_code.check_trusted(name, trust, "learner", ("nevis_stream.learners",))
    return run_config.build_learner(learner, _known(config, learner))


def to_config(config: Mapping[str, Any]) -> ml_collections.ConfigDict:
    """Returns the unresolved config of a run directory whose learner has a name.

    Raises:
      BadInput: its learner has none.
    """
    if config["learner"] not in TABLE:
        raise BadInput(f"learner {config['learner']!r} is not in the table of learners.")
    result = run_config.make_default(config["learner"])
    result.update_from_flattened_dict(_known(config, config["learner"]))
    return result


def _known(config: Mapping[str, Any], learner: str) -> dict[str, Any]:
    """Returns the recorded values of the learner's fields, with the table's for open ones."""
    values, fields_by_name = learners.flatten(config), run_config.list_fields(learner)
    row = TABLE[learner].values if learner in TABLE else {}
    recorded = {
        name: value
        for name, value in values.items()
        if name in fields_by_name and value is not None
    }
    return dict(row) | {name: fields_by_name[name].check(value) for name, value in recorded.items()}


def open_run(run_dir: Path, stream: str | None = None, trust: Sequence[str] = ()) -> KeptRun:
    """Returns a run directory whose predictors can be used again; arguments as of `KeptRun`."""
    return KeptRun(run_dir, load_learner, stream, trust)


def open_checkpoint(
    path: Path, stream: str | None = None, trust: Sequence[str] = ()
) -> tuple[KeptRun, KeptPredictor]:
    """Returns the run of a checkpoint, RUN/checkpoints/EVENT-TASK, and its chosen predictor.

    Args:
      path: the checkpoint.
      stream, trust: as of `open_run`.

    Raises:
      BadInput: it is not a checkpoint of a run.
    """
    if not path.is_dir() or path.parent.name != "checkpoints":
        raise BadInput(f"{path}: not a checkpoint, RUN/checkpoints/EVENT-TASK.")
    run = open_run(path.parent.parent, stream, trust)
    return run, find_predictor(run, path, None)
