"""The grid of a sweep: every combination of the values of some config keys.

If `train.validate_every` is not set, every trial of a grid over `train.steps` is evaluated on the
dev split four times, so that all points pay the same share for it.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_collections

from nevis_stream.configs import run_config
from nevis_stream.errors import BadInput
from nevis_stream.storage.tables import name_files

TRIALS, STEPS, LOOK = "search.trials", "train.steps", "train.validate_every"
LOOKS = 4
_SHORT = {TRIALS: "trials", STEPS: "steps"}
_BETWEEN_VALUES = re.compile(r",(?![^()\[\]]*[)\]])")  # a comma outside brackets


@dataclass(frozen=True)
class Cell:
    """One combination of a grid.

    Attributes:
      name: name of its directory, for example trials-2-steps-120.
      values: the swept values by dotted key, in the order of the axes.
      settings: `values`, and `train.validate_every` if the grid sets it.
      config: the resolved config.
    """

    name: str
    values: Mapping[str, Any]
    settings: Mapping[str, Any]
    config: run_config.RunConfig


def parse_axis(text: str) -> tuple[str, str]:
    """Splits `NAME=V1,V2`.

    >>> parse_axis("network.width=8,16")
    ('network.width', '8,16')
    """
    key, equals, values = text.partition("=")
    if not (key and equals and values):
        raise BadInput(f"{text!r}: --set needs KEY=V1,V2, for example network.width=8,16.")
    return key, values


def shorten_key(key: str) -> str:
    """Returns the name of a key in directories and tables."""
    return _SHORT.get(key, key)


def list_cells(
    config: ml_collections.ConfigDict,
    axes: Sequence[tuple[str, str]],
    fixed: Mapping[str, str] | None = None,
) -> list[Cell]:
    """Returns every combination; the last axis varies fastest.

    Args:
      config: the unresolved config that all of them share.
      axes: (dotted key, values as text separated by commas).
      fixed: the values of the command line, as text by dotted key; a swept learner gets them too.

    Raises:
      BadInput: no axis; an unknown, repeated or unsuitable key; a value of the wrong type;
        combinations that cannot be resolved, or that are the same run.
    """
    if not axes:
        raise BadInput("nothing to sweep: give --trials=2,4, --steps=120,240 or --set=KEY=V1,V2.")
    keys = [key for key, _ in axes]
    for key in keys:
        if keys.count(key) > 1:
            raise BadInput(f"{key} is swept twice; list all of its values once.")
    if "seed" in keys:
        raise BadInput("seed cannot be swept: use --seeds=N, whose runs are averaged.")
    columns = [_BETWEEN_VALUES.split(text) for _, text in axes]
    combinations = [
        _cell(config, dict(zip(keys, texts, strict=True)), fixed or {})
        for texts in itertools.product(*columns)
    ]
    for first, second in itertools.combinations(combinations, 2):
        if first.name == second.name or first.config == second.config:
            same = (
                "would have the same directory" if first.name == second.name else "are the same run"
            )
            raise BadInput(
                f"{_format_values(first.values)} and {_format_values(second.values)} {same};"
                " leave one out."
            )
    files = name_files(cell.name for cell in combinations)
    return [replace(cell, name=files[cell.name]) for cell in combinations]


def _cell(
    config: ml_collections.ConfigDict, texts: Mapping[str, str], fixed: Mapping[str, str]
) -> Cell:
    config = run_config.with_learner(config, texts.get("learner", config.learner))
    for key, text in {**fixed, **texts}.items():
        if key != "learner":
            run_config.put(config, key, text)
    all_values = run_config.flatten(config)
    values = {key: all_values[key] for key in texts}
    settings = dict(values)
    if STEPS in values and all_values.get(LOOK, 0) is None:
        settings[LOOK] = config.train.validate_every = max(1, -(-values[STEPS] // LOOKS))
    try:
        resolved = run_config.resolve(config)
        resolved.build()
    except BadInput as error:
        raise BadInput(f"{_format_values(values)}: {error}") from None
    name = "-".join(f"{shorten_key(key)}-{_in_a_name(value)}" for key, value in values.items())
    return Cell(name, values, settings, resolved)


def _format_values(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={format_value(value)}" for key, value in values.items())


def format_value(value: Any) -> str:
    """Returns a value as the text of `--config.KEY=VALUE`, without spaces."""
    return value if isinstance(value, str) else re.sub(r"\s", "", str(value))


def _in_a_name(value: Any) -> str:
    return "_".join(map(str, value)) if isinstance(value, tuple) else str(value)
