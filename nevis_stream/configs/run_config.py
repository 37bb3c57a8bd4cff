"""The config of a run: the typed values that fully determine it.

It consists of common values and the fields of the learner's frozen dataclass
(nevis_stream.learners). A value of None is open: the learner's row of the table or the preset sets
it. Values from the command line or a config file are never changed.
"""

import ast
import dataclasses
import functools
import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import ml_collections
from ml_collections import config_dict

from nevis_stream import learners, user_code
from nevis_stream.errors import BadInput, DataWarning, unknown
from nevis_stream.executor import Executor
from nevis_stream.learner import Learner
from nevis_stream.learners import Field
from nevis_stream.learners.table import TABLE
from nevis_stream.progress import Progress
from nevis_stream.run_directory import config as config_file
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.runner import parse_last_kept, run
from nevis_stream.streams.named_streams import list_unprepared
from nevis_stream.streams.stream import Stream
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


COMMON = tuple(learners.flatten_fields(Common))


@dataclass(frozen=True)
class RunConfig(Common):
    """A config without open values, made once a run, with the learner that it describes.

    Attributes:
      own: the learner's values, an instance of its class of configuration.
      left_open: names of the values that the preset set, and `label` if it follows from the values.
    """

    own: Any = None
    left_open: frozenset[str] = field(default=frozenset(), compare=False)

    @functools.cached_property
    def _learner(self) -> Learner:
        return learners.build(self.own)

    def build(self) -> Learner:
        """Returns the learner, which is made at the first call."""
        return self._learner

    def with_seed(self, seed: int) -> "RunConfig":
        """Returns the config with a seed; another seed has a learner of its own."""
        return self if seed == self.seed else dataclasses.replace(self, seed=seed)

    def as_begun(self, begun: Mapping[str, Any]) -> "RunConfig":
        """Returns the config with which a run goes on that an earlier version began: of what this
        config leaves open, the run keeps what its preset was then, and its label.

        Args:
          begun: the values that were recorded.
        """
        former, recorded = getattr(type(self.own), "FORMER", {}), learners.flatten(begun)
        kept = {k: v for k, v in former.items() if k in self.left_open and recorded.get(k) == v}
        if former and "label" in self.left_open and isinstance(begun.get("label"), str):
            kept["label"] = begun["label"]
        values = flatten(self) | kept
        if values == flatten(self):
            return self
        common = {name: values.pop(name) for name in COMMON}
        return RunConfig(**common, own=_make(type(self.own), values, self.learner))

    def to_dict(self) -> dict[str, Any]:
        """Returns the values, nested by section."""
        common = {name: getattr(self, name) for name in COMMON}
        return common | dataclasses.asdict(self.own)


def list_fields(learner: str) -> dict[str, Field]:
    """Returns the fields of a learner's config by dotted name, the common ones first.

    Raises:
      BadInput: no such learner, or it has a field with the name of a common one.
    """
    own = learners.flatten_fields(learners.find_config_class(learner))
    for name in own:
        if name.partition(".")[0] in COMMON:
            raise BadInput(
                f"learner {learner}: its field {name} must have another name, because every config"
                f" has values named {', '.join(COMMON)}."
            )
    return learners.flatten_fields(Common) | own


def make_default(learner: str) -> ml_collections.ConfigDict:
    """Returns a learner's config on the stream `pico` at budget `tiny`, with all else open.

    Args:
      learner: a name of the table, or package.module:Class, as the user wrote it.
    """
    learner = user_code.resolve_written_name(learner)
    values = {
        name: config_dict.placeholder(field.type) if field.default is None else field.default
        for name, field in list_fields(learner).items()
    }
    return ml_collections.ConfigDict(learners.nest(values | {"learner": learner}))


default = make_default  # its former name


def with_learner(config: ml_collections.ConfigDict, learner: str) -> ml_collections.ConfigDict:
    """Returns a config with another learner; values of a learner of the same class are kept."""
    learner = user_code.resolve_written_name(learner)
    if learners.find_config_class(learner) is learners.find_config_class(config.learner):
        changed = config.copy_and_resolve_references()
    else:
        changed = make_default(learner)
        changed.update({name: config[name] for name in COMMON})
    changed.learner = learner
    return changed


def resolve(config: "ml_collections.ConfigDict | RunConfig") -> RunConfig:
    """Returns the config with every open value filled in; other values are kept.

    Raises:
      BadInput: an unknown learner, budget or choice, or an invalid value; the message lists the
        valid ones.
    """
    values = flatten(config)
    _check_keys(values)
    common = learners.check_values(Common, values)
    parse_last_kept(common["keep"])
    learner = common["learner"]
    config_class = learners.find_config_class(learner)
    own_values = _fill(config_class, learner, common["budget"], values)
    own = _make(config_class, own_values, learner)
    if get_presets(config_class) is None:
        common["budget"] = ""
    if not common["label"]:
        defaults = _fill(config_class, learner, common["budget"], {})
        differing = [
            f"{name}={own_values[name]}"
            for name, field in learners.flatten_fields(config_class).items()
            if field.label and own_values[name] != defaults[name]
        ]
        common["label"] = ", ".join([learner.rpartition(":")[2], *differing])
    remark = getattr(own, "remark", "")
    if remark not in common["label"]:
        common["label"] += f" {remark}"
    left_open = {"label"} - {k for k, value in values.items() if value}
    left_open |= {name for name in own_values if values.get(name) is None}
    return RunConfig(**common, own=own, left_open=frozenset(left_open))


def get_presets(config_class: Any) -> Mapping[str, Mapping[str, Any]] | None:
    """Returns a learner's presets by name; None if its class has none."""
    former = getattr(config_class, "BUDGETS", None)  # its former name
    return getattr(config_class, "PRESETS", former)


def _fill(
    config_class: Any, learner: str, preset: str, values: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the values of a learner's fields, checked, with every open one filled in."""
    row = TABLE[learner].values if learner in TABLE else {}
    checked = learners.check_values(
        config_class, {**values, **{k: v for k, v in row.items() if values.get(k) is None}}
    )
    presets = get_presets(config_class)
    if presets is None:
        return checked
    if preset not in presets:
        raise BadInput(unknown("budget", preset, presets))
    return config_class.fill(checked, presets[preset])


def _make(config_class: type, values: Mapping[str, Any], learner: str) -> Any:
    try:
        return learners.make_config(config_class, values)
    except BadInput:
        raise
    except Exception as error:  # a user's __post_init__ may raise anything
        raise BadInput(f"learner {learner}: {error}") from None


def _check_keys(values: Mapping[str, Any]) -> None:
    """Refuses unknown keys, which a config file may contain."""
    if not isinstance(values.get("learner"), str):
        raise BadInput(
            "config.learner is missing: start from run_config.make_default(NAME)"
            " (docs/learners.md)."
        )
    valid = list_fields(values["learner"])
    for key in values:
        if key not in valid:
            raise BadInput(unknown("config key", key, valid))


def flatten(config: ml_collections.ConfigDict | RunConfig) -> dict[str, Any]:
    """Returns the values by dotted name."""
    return learners.flatten(config.to_dict())


def describe_wrong_type(field: Field, text: str) -> str:
    """Returns an error message for a text that is not a value of a field's type."""
    examples: dict[type | None, str] = {bool: "(True,)", int: "(32,64)", str: "('a','b')"}
    example = examples.get(field.element, "(0.01,0.1)")
    example = f", for example {example}" if field.type is tuple else ""
    default = "set by the budget" if field.default is None else field.default
    return (
        f"the value must be of type {field.type.__name__}{example}, not {text!r} (default:"
        f" {default})."
    )


def put(config: ml_collections.ConfigDict, key: str, text: str, shown: str = "") -> None:
    """Sets a value of a config from text; `shown` is what the user wrote.

    Raises:
      BadInput: an unknown key, or a text that is not a value of its type.
    """
    keys = list_fields(config.learner)
    if key not in keys:
        raise BadInput(f"learner {config.learner}: {unknown('config key', key, keys)}")
    config.update_from_flattened_dict({key: parse_typed(keys[key], text, shown or f"{key}={text}")})


def parse_typed(field: Field, text: str, shown: str) -> Any:
    """Returns the value of a text, in the type of its field.

    >>> parse_typed(Field("rate", tuple, None), "(0.01,0.1)", "")
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
    if field.type is float and text.lower().lstrip("+-") == "nan":
        raise BadInput(f"{shown}: NaN is not allowed; give a number (default: {field.default}).")
    raise BadInput(f"{shown}: {describe_wrong_type(field, text)}")


def to_json(config: RunConfig) -> dict[str, Any]:
    """Returns the values that identify a run, as plain JSON, in which tuples are lists.

    Pre-trained weights are identified by their digest, since their path may change.
    """
    values = json.loads(json.dumps(config.to_dict()))
    if "pretrained" in values:
        values["pretrained"]["path"] = None
    return values | {"budget": values["budget"] or None}


def build_learner(learner: str, values: Mapping[str, Any]) -> Learner:
    """Builds a learner from its name and the values of its fields by dotted name."""
    return learners.build(_make(learners.find_config_class(learner), values, learner))


def run_config_once(
    config: RunConfig,
    stream: Stream,
    run_dir: Path,
    checkpoint_seconds: float = 30.0,
    executor: Executor | None = None,
    devices: int = 1,
    tensorboard: bool = True,
    progress: Progress | None = None,
    accept_changed_code: bool = False,
) -> Ledger:
    """Runs or continues one config in one directory; returns the complete ledger."""
    _warn_of_unprepared(config.stream)
    if (run_dir / config_file.FILE_NAME).exists():
        config = config.as_begun(config_file.read_config(run_dir).values)
    return run(
        config.build(),
        stream,
        run_dir,
        protocol=config.protocol,
        seed=config.seed,
        config=to_json(config),
        keep=config.keep,
        checkpoint_seconds=checkpoint_seconds,
        executor=executor,
        devices=devices,
        tensorboard=tensorboard,
        progress=progress,
        accept_changed_code=accept_changed_code,
    )


def _warn_of_unprepared(stream: str) -> None:
    if names := list_unprepared(stream):
        first = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
        warnings.warn(
            f"{len(names)} data set(s) are read from shared files, not as prepared: {first}. Their"
            " splits are others and duplicates are not removed, so errors cannot be compared with"
            f" those of prepared data: python -m launch.data prepare --stream={stream}",
            DataWarning,
            stacklevel=3,
        )
