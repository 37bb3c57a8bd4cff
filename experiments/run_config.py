"""The config of a run: the typed values that fully determine it.

It consists of common values and the fields of the learner's frozen dataclass (learners.fields). A
value of None is open: the learner's row of the table or the budget sets it. Values from the command
line or a config file are never changed.
"""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import ml_collections
from ml_collections import config_dict

from nevis_stream import learners, user_code
from nevis_stream.errors import BadInput, unknown
from nevis_stream.learner import Learner
from nevis_stream.learners import fields
from nevis_stream.learners.fields import Field
from nevis_stream.learners.table import TABLE
from nevis_stream.runner import last_kept
from nevis_stream.vocabulary import PROTOCOLS


@dataclass(frozen=True)
class Common:
    """The values that every config has."""

    learner: str = field(
        default="", metadata={"help": "name of a learner, or package.module:Class"}
    )
    label: str = field(default="", metadata={"help": "name of the learner in reports"})
    stream: str = field(default="pico", metadata={"help": "name of a stream, or path of its csv"})
    budget: str = field(
        default="tiny",
        metadata={"help": "preset for the values that neither you nor the learner sets"},
    )
    protocol: Literal[*PROTOCOLS] = field(
        default="meta_test", metadata={"help": "the tasks that are judged, and the split"}
    )
    seed: int = field(default=0, metadata={"help": "seed of all random numbers"})
    keep: str = field(
        default="chosen", metadata={"help": "checkpoints that are kept: chosen, all or last_K"}
    )


COMMON = tuple(fields.fields_of(Common))


def fields_of(learner: str) -> dict[str, Field]:
    """Returns the fields of a learner's config by dotted name, the common ones first.

    Raises:
      BadInput: no such learner, or it has a field with the name of a common one.
    """
    own = fields.fields_of(learners.class_of(learner))
    for name in own:
        if name.partition(".")[0] in COMMON:
            raise BadInput(
                f"learner {learner}: its field {name} must have another name, because every config"
                f" has values named {', '.join(COMMON)}."
            )
    return fields.fields_of(Common) | own


def default(learner: str) -> ml_collections.ConfigDict:
    """Returns a learner's config on the stream `pico` at budget `tiny`, with all else open.

    Args:
      learner: a name of the table, or package.module:Class, as the user wrote it.
    """
    learner = user_code.written_name(learner)
    values = {
        name: config_dict.placeholder(field.type) if field.default is None else field.default
        for name, field in fields_of(learner).items()
    }
    return ml_collections.ConfigDict(fields.nest(values | {"learner": learner}))


def with_learner(config: ml_collections.ConfigDict, learner: str) -> ml_collections.ConfigDict:
    """Returns a config with another learner; values of a learner of the same class are kept."""
    learner = user_code.written_name(learner)
    if learners.class_of(learner) is learners.class_of(config.learner):
        changed = config.copy_and_resolve_references()
    else:
        changed = default(learner)
        changed.update({name: config[name] for name in COMMON})
    changed.learner = learner
    return changed


def resolve(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
    """Returns the config with every open value filled in; other values are kept.

    Raises:
      BadInput: an unknown learner, budget or choice, or an invalid value; the message lists the
        valid ones.
    """
    values = flat(config)
    _check_keys(values)
    common = fields.make(Common, values)
    last_kept(common.keep)
    section = _section(common, values)
    if not hasattr(section, "BUDGETS"):
        common = dataclasses.replace(common, budget="")
    label = common.label or _label(common, section)
    remark = getattr(section, "remark", "")
    if remark and remark not in label:
        label = f"{label} {remark}"
    common = dataclasses.replace(common, label=label)
    resolved = default(common.learner)
    resolved.update_from_flattened_dict(
        dataclasses.asdict(common) | fields.flat(dataclasses.asdict(section))
    )
    return resolved


def _section(common: Common, values: Mapping[str, Any]) -> Any:
    """Returns the learner's configuration with every open value filled in."""
    section = learners.class_of(common.learner)
    preset = TABLE[common.learner].values if common.learner in TABLE else {}
    filled = dict(values) | {k: v for k, v in preset.items() if values.get(k) is None}
    config = _build(section, filled, common.learner)
    if not hasattr(section, "BUDGETS"):
        return config
    if common.budget not in section.BUDGETS:
        raise BadInput(unknown("budget", common.budget, section.BUDGETS))
    return config.fill(common.budget)


def _build(section: type, values: Mapping[str, Any], learner: str) -> Any:
    try:
        return fields.make(section, values)
    except BadInput:
        raise
    except Exception as error:  # a user's __post_init__ may raise anything
        raise BadInput(f"learner {learner}: {error}") from None


def _label(common: Common, section: Any) -> str:
    """Returns the learner's name and the settings that differ from its default ones."""
    defaults = fields.flat(dataclasses.asdict(_section(common, {})))
    values = fields.flat(dataclasses.asdict(section))
    differing = [
        f"{name}={values[name]}"
        for name, field in fields.fields_of(type(section)).items()
        if field.label and values[name] != defaults[name]
    ]
    return ", ".join([common.learner.rpartition(":")[2], *differing])


def _check_keys(values: Mapping[str, Any]) -> None:
    """Refuses unknown keys, which a config file may contain."""
    if not isinstance(values.get("learner"), str):
        raise BadInput(
            "config.learner is missing: start from run_config.default(NAME) (docs/learners.md)."
        )
    valid = fields_of(values["learner"])
    for key in values:
        if key not in valid:
            raise BadInput(unknown("config key", key, valid))


def flat(config: ml_collections.ConfigDict) -> dict[str, Any]:
    """Returns the values by dotted name."""
    return fields.flat(config.to_dict())


def not_of_type(field: Field, text: str) -> str:
    """Returns an error message for a text that is not a value of a field's type."""
    examples: dict[type | None, str] = {bool: "(True,)", int: "(32,64)", str: "('a','b')"}
    example = examples.get(field.element, "(0.01,0.1)")
    example = f", for example {example}" if field.type is tuple else ""
    default = "set by the budget" if field.default is None else field.default
    return (
        f"the value must be of type {field.type.__name__}{example}, not {text!r} (default:"
        f" {default})."
    )


def to_json(config: ml_collections.ConfigDict) -> dict[str, Any]:
    """Returns the values that identify a run, as plain JSON, in which tuples are lists.

    Pre-trained weights are identified by their digest, since their path may change.
    """
    values = json.loads(json.dumps(config.to_dict()))
    if "pretrained" in values:
        values["pretrained"]["path"] = None
    return values | {"budget": values["budget"] or None}


def build(config: ml_collections.ConfigDict) -> Learner:
    """Builds the learner that a resolved config names."""
    return learner_of(config.learner, flat(config))


def learner_of(learner: str, values: Mapping[str, Any]) -> Learner:
    """Builds a learner from its name and the values of its fields by dotted name."""
    return learners.build(_build(learners.class_of(learner), values, learner))
