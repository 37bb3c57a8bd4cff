"""The learners: those that have a name (learners.table), and any class given as MODULE:CLASS; and
the fields of their configurations, frozen dataclasses, by dotted name.

A field is an int, float, str or bool, a tuple of one of these, or a frozen dataclass. Its metadata
may have `help` (a text), `range` (lowest and highest value, of a number or of each number of a
tuple) and `label` (true if a run whose value differs from the learner's own shows it in its label).
`typing.Literal` lists the valid strings. A field whose default is None is open: a preset sets it.
"""

import dataclasses
import difflib
import functools
import importlib
import inspect
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from nevis_stream import user_code
from nevis_stream.errors import BadInput, unknown
from nevis_stream.learner import Learner
from nevis_stream.learners.table import BUILDERS, TABLE
from nevis_stream.storage.record import check_json


def find_config_class(name: str) -> type:
    """Returns the frozen dataclass whose fields are a learner's configuration.

    The class is the learner itself, or one for which `build` returns the learner.

    Args:
      name: a name of the table, or MODULE:CLASS, which is imported: the user wrote it, or trusts
        it (nevis_stream.user_code).

    Raises:
      BadInput: no such name, module or class, or a class that cannot be configured.
    """
    if name in TABLE:
        name = TABLE[name].class_name
    module, colon, class_name = name.partition(":")
    if not (module and colon and class_name):
        raise BadInput(
            f"{unknown('learner', name, TABLE)} Your own class is given as package.module:Class."
        )
    try:
        found = user_code.import_module(module)
        learner_class = getattr(found, class_name, None)
    except Exception as error:  # a user's module may raise anything
        hint = ""
        if isinstance(error, ModuleNotFoundError):
            hint = (
                " A module must be on Python's path, in the current directory, or in the folder of"
                " the --config file."
            )
        raise BadInput(
            f"learner {name}: importing {module} failed with {type(error).__name__}: {error}.{hint}"
        ) from None
    if not inspect.isclass(learner_class):
        classes = [key for key, _ in inspect.getmembers(found, inspect.isclass)]
        near = difflib.get_close_matches(class_name, classes, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise BadInput(f"learner {name}: {module} has no class {class_name!r}.{hint}")
    flatten_fields(learner_class)  # refuses what cannot be configured
    missing = [
        method for method in ("init", "train", "predict") if not hasattr(learner_class, method)
    ]
    built = hasattr(learner_class, "build") or _path(learner_class) in BUILDERS
    if missing and not built:
        raise BadInput(
            f"learner {name}: the class has no method {', '.join(missing)}. A learner has init,"
            " train and predict, or a method build that returns a learner."
        )
    return learner_class


def build(config: Any) -> Learner:
    """Returns the learner of a configuration, an instance of a class that `find_config_class`
    returns.

    The configurations of this package are data: the table says what builds their learners. A class
    of the user's has a method `build`, or is the learner itself.
    """
    if builder := BUILDERS.get(_path(type(config))):
        module, _, name = builder.partition(":")
        return getattr(importlib.import_module(module), name)(config)
    return config.build() if hasattr(config, "build") else config


def _path(config_class: type) -> str:
    return f"{config_class.__module__}:{config_class.__qualname__}"


_PLAIN = (bool, int, float, str)


@dataclasses.dataclass(frozen=True)
class Field:
    """One value of a configuration.

    Attributes:
      name: its name after those of its sections, for example train.steps.
      type: bool, int, float, str or tuple.
      default: None if it is open.
      element: the type of a tuple's elements.
      choices: the valid strings; empty if any is valid.
      range: lowest and highest number, or None.
      help: its meaning.
      label: whether the label shows a value that differs from the learner's own.
    """

    name: str
    type: type
    default: Any
    element: type | None = None
    choices: tuple[str, ...] = ()
    range: tuple[float, float] | None = None
    help: str = ""
    label: bool = False

    def check(self, value: Any) -> Any:
        """Returns the value in the field's type: a list as a tuple, an int as a float.

        Raises:
          BadInput: a value of another type, a number out of range, or an unknown string.
        """
        value = tuple(value) if self.type is tuple and isinstance(value, list) else value
        value = float(value) if self.type is float and type(value) is int else value
        if type(value) is not self.type:
            raise self._wrong(value, f"of type {self.type.__name__}")
        if self.choices and value not in self.choices:
            raise BadInput(unknown(f"config.{self.name}", value, self.choices))
        elements: tuple = value if isinstance(value, tuple) else (value,)
        if self.element and not all(_is_a(item, self.element) for item in elements):
            raise self._wrong(value, f"a tuple of {self.element.__name__}")
        if self.range and not all(self.range[0] <= item <= self.range[1] for item in elements):
            raise self._wrong(value, f"between {self.range[0]} and {self.range[1]}")
        check_json(value, f"config.{self.name}")
        return value

    def _wrong(self, value: Any, expected: str) -> BadInput:
        return BadInput(f"config.{self.name} is {value}; it must be {expected}.")


def flatten_fields(section: type) -> dict[str, Field]:
    """Returns the fields of a dataclass by dotted name.

    Raises:
      BadInput: it is not a frozen dataclass, or a field has another type or no default.
    """
    return dict(_by_name(section))


@functools.lru_cache  # a command asks dozens of times, and each takes milliseconds
def _by_name(section: type) -> dict[str, Field]:
    return {field.name: field for field in _fields(section, "")}


def _is_frozen(section: Any) -> bool:
    """Whether it is a frozen dataclass; a subclass without fields of its own is as its base."""
    own = vars(section)
    return section.__dataclass_params__.frozen and (
        "__dataclass_params__" in own or not own.get("__annotations__")
    )


def _fields(section: type, prefix: str) -> Iterator[Field]:
    if not dataclasses.is_dataclass(section) or not _is_frozen(section):
        raise BadInput(
            f"{section.__qualname__}: a learner's class must be a frozen dataclass"
            " (@dataclass(frozen=True)), whose fields are the learner's configuration."
        )
    hints = typing.get_type_hints(section)
    for field in dataclasses.fields(section):
        name, hint = f"{prefix}{field.name}", hints[field.name]
        if not field.init:
            continue
        if dataclasses.is_dataclass(hint):
            yield from _fields(hint, f"{name}.")
            continue
        kind, element, choices = _type(hint)
        default = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        if kind is None or default is dataclasses.MISSING:
            problem = "has no default" if kind else f"is of type {hint}"
            raise BadInput(
                f"{section.__qualname__}.{field.name} {problem}. A field of a configuration has a"
                " default and is a bool, int, float, str, a tuple of these, or a frozen dataclass."
            )
        metadata = {name: field.metadata[name] for name in _OPTIONS if name in field.metadata}
        yield Field(name, kind, default, element, choices, **metadata)


_OPTIONS = ("range", "help", "label")


def _type(hint: Any) -> tuple[type | None, type | None, tuple[str, ...]]:
    """Returns the type, the type of its elements and the valid strings.

    The type is None if a field cannot have it.
    """
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        rest = [member for member in typing.get_args(hint) if member is not type(None)]
        hint = rest[0] if len(rest) == 1 else None
    if typing.get_origin(hint) is typing.Literal:
        return str, None, typing.get_args(hint)
    if typing.get_origin(hint) is tuple:
        element = typing.get_args(hint)[0]
        return (tuple, element, ()) if element in _PLAIN else (None, None, ())
    return (hint if hint in (*_PLAIN, tuple) else None), None, ()


def _is_a(value: Any, kind: type) -> bool:
    return type(value) is kind or (kind is float and type(value) is int)


def check_values(section: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of a dataclass's fields by dotted name; a missing one has its default.

    Raises:
      BadInput: a value that its field cannot have.
    """
    checked = {}
    for name, field in flatten_fields(section).items():
        value = values.get(name, field.default)
        checked[name] = None if value is field.default is None else field.check(value)
    return checked


def make_config(section: type, values: Mapping[str, Any]) -> Any:
    """Returns a dataclass with these values by dotted name, as `check_values` takes them."""
    return _make(section, check_values(section, values), "")


def _make(section: type, values: Mapping[str, Any], prefix: str) -> Any:
    hints, arguments = typing.get_type_hints(section), {}
    for field in dataclasses.fields(section):
        name = f"{prefix}{field.name}"
        if dataclasses.is_dataclass(hints[field.name]):
            arguments[field.name] = _make(hints[field.name], values, f"{name}.")
        elif field.init:
            arguments[field.name] = values[name]
    return section(**arguments)


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Returns the values of nested mappings by dotted name.

    >>> flatten({"seed": 1, "train": {"steps": 2}})
    {'seed': 1, 'train.steps': 2}
    """
    pairs: dict[str, Any] = {}
    for name, value in values.items():
        is_section = isinstance(value, Mapping)
        pairs |= flatten(value, f"{prefix}{name}.") if is_section else {f"{prefix}{name}": value}
    return pairs


def nest(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns nested dicts of values by dotted name.

    >>> nest({"seed": 1, "train.steps": 2})
    {'seed': 1, 'train': {'steps': 2}}
    """
    root: dict[str, Any] = {}
    for name, value in values.items():
        *sections, last = name.split(".")
        inner = root
        for section in sections:
            inner = inner.setdefault(section, {})
        inner[last] = value
    return root


if __name__ == "learners":  # imported from a checkout under its former name
    user_code.adopt(__name__)
