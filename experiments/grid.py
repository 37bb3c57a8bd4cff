"""The grid of a sweep: every combination of the values of some config keys, each with the name of
its directory.

Without `train.validate_every`, a grid over `train.steps` looks at the dev split four times in every
trial, so that no point pays more for looking than another.
"""

import ast
import copy
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_collections

from experiments import run_config
from nevis_stream.errors import BadInput, unknown

TRIALS, STEPS, LOOK = "search.trials", "train.steps", "train.validate_every"
LOOKS = 4
_SHORT = {TRIALS: "trials", STEPS: "steps"}
_BETWEEN_VALUES = re.compile(r",(?![^()\[\]]*[)\]])")  # a comma that stands in no bracket


@dataclass(frozen=True)
class Cell:
    """One combination of a grid.

    Attributes:
      name: of its directory: trials-2-steps-120.
      values: the swept values by dotted key, in the order of the axes.
      settings: `values` and what follows from them: all that the config is given.
      config: the resolved config.
    """

    name: str
    values: Mapping[str, Any]
    settings: Mapping[str, Any]
    config: ml_collections.ConfigDict


def axis(text: str) -> tuple[str, str]:
    """Takes `NAME=V1,V2` apart.

    >>> axis("network.width=8,16")
    ('network.width', '8,16')
    """
    key, equals, values = text.partition("=")
    if not (key and equals and values):
        raise BadInput(f"{text!r}: an axis is NAME=V1,V2: network.width=8,16 say.")
    return key, values


def short(key: str) -> str:
    """Returns what a key is called in names and tables."""
    return _SHORT.get(key, key)


def cells(config: ml_collections.ConfigDict, axes: Sequence[tuple[str, str]]) -> list[Cell]:
    """Returns every combination; the last axis varies fastest.

    Args:
      config: what all of them share, as `run_config.default` makes it, with what was given.
      axes: (dotted key, values as text with commas between them).

    Raises:
      BadInput: no axis; an unknown, repeated or unsuitable key; a value of another type;
        combinations that cannot be resolved or are the same run.
    """
    if not axes:
        raise BadInput("nothing to sweep: give --trials=2,4, --steps=120,240 or --set=NAME=V1,V2.")
    keys = [key for key, _ in axes]
    for key in keys:
        if keys.count(key) > 1:
            raise BadInput(f"{key} is swept twice; give all of its values at once.")
    columns = [_values(config, key, text) for key, text in axes]
    found = [
        _cell(config, dict(zip(keys, values, strict=True)))
        for values in itertools.product(*columns)
    ]
    for first, second in itertools.combinations(found, 2):
        if first.name == second.name or first.config == second.config:
            same = (
                "would have the same directory" if first.name == second.name else "are the same run"
            )
            raise BadInput(
                f"{_told(first.values)} and {_told(second.values)} {same}; leave one out."
            )
    return found


def _values(config: ml_collections.ConfigDict, key: str, text: str) -> list[Any]:
    valid = [name for name, _ in run_config.flat(config)]
    if key not in valid:
        raise BadInput(unknown("config key", key, valid))
    if key == "seed":
        raise BadInput("seed is no axis: give --seeds=N, which averages over them.")
    return [typed(config, key, value) for value in _BETWEEN_VALUES.split(text)]


def typed(config: ml_collections.ConfigDict, key: str, text: str) -> Any:
    """Returns a value that stands as text, in the type of its key.

    >>> typed(run_config.default("indep"), "search.learning_rate", "(0.01,0.1)")
    (0.01, 0.1)
    """
    kind = run_config.type_of(config, key)
    try:
        if kind is str and text:
            return text
        value = (
            {"true": True, "false": False}.get(text.lower())
            if kind is bool
            else ast.literal_eval(text)
        )
        if type(value) is kind or (kind, type(value)) == (float, int):
            return kind(value)
    except (ValueError, SyntaxError):
        pass
    raise BadInput(f"{key}={text}: {run_config.not_of_type(config, key, text)}")


def _cell(config: ml_collections.ConfigDict, values: Mapping[str, Any]) -> Cell:
    settings = dict(values)
    if STEPS in values and LOOK not in values and config.train.validate_every is None:
        settings[LOOK] = max(1, -(-values[STEPS] // LOOKS))
    changed = copy.deepcopy(config)
    changed.update_from_flattened_dict(settings)
    try:
        resolved = run_config.resolve(changed)
        run_config.build(resolved)
    except BadInput as error:
        raise BadInput(f"{_told(values)}: {error}") from None
    if TRIALS in values and resolved.search.method == "grid":
        raise BadInput(f"{_told(values)}: {run_config.GRID_TRIALS}")
    name = "-".join(f"{short(key)}-{_in_a_name(value)}" for key, value in values.items())
    return Cell(name, values, settings, resolved)


def _told(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={written(value)}" for key, value in values.items())


def written(value: Any) -> str:
    """Returns a value as it stands in `--config.NAME=VALUE`, without spaces."""
    return value if isinstance(value, str) else re.sub(r"\s", "", str(value))


def _in_a_name(value: Any) -> str:
    parts = value if isinstance(value, tuple) else [value]
    return "_".join(re.sub(r"[^\w.+@-]", "_", str(part)) for part in parts)
