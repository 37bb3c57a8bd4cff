"""Registries that are filled by scanning a package: a new entry is a new file."""

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Any

from nevis_stream.errors import BadInput, unknown


def scanned(package: Any, attribute: str) -> Mapping[str, Any]:
    """Returns the attribute of each module of a package that has it, by the name of the module."""
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    modules = {name: importlib.import_module(f"{package.__name__}.{name}") for name in names}
    return {
        name: getattr(module, attribute)
        for name, module in modules.items()
        if hasattr(module, attribute)
    }


def named(registry: Mapping[str, Any], noun: str, name: str) -> Any:
    """Returns an entry; BadInput names the valid ones, `noun` says what they are."""
    if name not in registry:
        raise BadInput(unknown(noun, name, registry))
    return registry[name]
