"""Executors, which run the trials of a task; docs/executors.md explains how to choose one.

Each is a module of this package with a `NAME` and an `EXECUTOR`, a dataclass whose fields are its
options.
"""

import dataclasses
import functools
import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any

from nevis_stream.errors import BadInput, unknown
from nevis_stream.executor import Executor


@functools.cache
def registry() -> Mapping[str, type]:
    """Returns the executors' classes by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return {module.NAME: module.EXECUTOR for module in modules if hasattr(module, "EXECUTOR")}


def names() -> list[str]:
    """Returns the names of all executors."""
    return sorted(registry())


def options(name: str) -> list[str]:
    """Returns the names of an executor's options.

    Raises:
      BadInput: no such executor; the message lists the valid names.
    """
    if name not in registry():
        raise BadInput(unknown("executor", name, registry()))
    return [field.name for field in dataclasses.fields(registry()[name])]


def build(name: str, values: Mapping[str, Any] | None = None) -> Executor:
    """Returns the executor of this name, with these values of its options.

    Raises:
      BadInput: no such executor, or it has no such option; the message lists the valid ones.
    """
    valid = options(name)
    for option in values or {}:
        if option not in valid:
            raise BadInput(f"executor {name!r}: {unknown('option', option, valid)}")
    return registry()[name](**(values or {}))
