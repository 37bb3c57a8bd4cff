"""The grid of a sweep: every combination of some config keys' values, with its directory's name.

Without `train.validate_every`, a grid over `train.steps` looks at the dev split four times in every
trial, so that no point pays more for looking than another.
"""

import ast
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_collections

from experiments import run_config
from learners.fields import Field
from nevis_stream.errors import BadInput, unknown

TRIALS, STEPS, LOOK = "search.trials", "train.steps", "train.validate_every"
LOOKS = 4
_SHORT = {TRIALS: "trials", STEPS: "steps"}
_BETWEEN_VALUES = re.compile(r",(?![^()\[\]]*[)\]])")  # a comma outside of brackets


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
    """Splits `NAME=V1,V2`.

    >>> axis("network.width=8,16")
    ('network.width', '8,16')
    """
    key, equals, values = text.partition("=")
    if not (key and equals and values):
        raise BadInput(f"{text!r}: an axis is NAME=V1,V2, for example network.width=8,16.")
    return key, values


def short(key: str) -> str:
    """Returns what a key is called in names and tables."""
    return _SHORT.get(key, key)


def cells(
    config: ml_collections.ConfigDict,
    axes: Sequence[tuple[str, str]],
    given: Mapping[str, str] | None = None,
) -> list[Cell]:
    """Returns every combination; the last axis varies fastest.

    Args:
      config: what all of them share, as `run_config.default` makes it, with what was given.
      axes: (dotted key, values as text with commas between them).
      given: what was given on the command line, as text by dotted key: a learner of another class
        gets it too.

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
    if "seed" in keys:
        raise BadInput("seed is no axis: give --seeds=N, which averages over them.")
    columns = [_BETWEEN_VALUES.split(text) for _, text in axes]
    combinations = [
        _cell(config, dict(zip(keys, texts, strict=True)), given or {})
        for texts in itertools.product(*columns)
    ]
    for first, second in itertools.combinations(combinations, 2):
        if first.name == second.name or first.config == second.config:
            same = (
                "would have the same directory" if first.name == second.name else "are the same run"
            )
            raise BadInput(
                f"{_written(first.values)} and {_written(second.values)} {same}; leave one out."
            )
    return combinations


def put(config: ml_collections.ConfigDict, key: str, text: str, shown: str = "") -> None:
    """Sets a value of a config from text; `shown` is what the user wrote.

    Raises:
      BadInput: an unknown key, or a text that is no value of its type.
    """
    keys = run_config.fields_of(config.learner)
    if key not in keys:
        raise BadInput(f"learner {config.learner}: {unknown('config key', key, keys)}")
    config.update_from_flattened_dict({key: typed(keys[key], text, shown or f"{key}={text}")})


def typed(field: Field, text: str, shown: str) -> Any:
    """Returns a value that is given as text, in the type of its field.

    >>> typed(Field("rate", tuple, None), "(0.01,0.1)", "")
    (0.01, 0.1)
    """
    if field.type is str and text:
        return text
    try:
        if field.type is bool:
            value: Any = {"true": True, "false": False}.get(text.lower())
        else:
            value = ast.literal_eval(text)
        if type(value) is field.type or (field.type, type(value)) == (float, int):
            return field.type(value)
    except (ValueError, SyntaxError):
        pass
    raise BadInput(f"{shown}: {run_config.not_of_type(field, text)}")


def _cell(
    config: ml_collections.ConfigDict, texts: Mapping[str, str], given: Mapping[str, str]
) -> Cell:
    changed = run_config.with_learner(config, texts.get("learner", config.learner))
    for key, text in {**given, **texts}.items():
        if key != "learner":
            put(changed, key, text)
    values = {key: run_config.flat(changed)[key] for key in texts}
    settings, open_look = dict(values), run_config.flat(changed).get(LOOK, 0) is None
    if STEPS in values and LOOK not in values and open_look:
        settings[LOOK] = changed.train.validate_every = max(1, -(-values[STEPS] // LOOKS))
    try:
        resolved = run_config.resolve(changed)
        run_config.build(resolved)
    except BadInput as error:
        raise BadInput(f"{_written(values)}: {error}") from None
    name = "-".join(f"{short(key)}-{_in_a_name(value)}" for key, value in values.items())
    return Cell(name, values, settings, resolved)


def _written(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={written(value)}" for key, value in values.items())


def written(value: Any) -> str:
    """Returns a value as it is written in `--config.NAME=VALUE`, without spaces."""
    return value if isinstance(value, str) else re.sub(r"\s", "", str(value))


def _in_a_name(value: Any) -> str:
    parts = value if isinstance(value, tuple) else [value]
    return "_".join(re.sub(r"[^\w.+@-]", "_", str(part)) for part in parts)
