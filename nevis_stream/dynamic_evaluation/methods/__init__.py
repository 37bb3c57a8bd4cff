"""Methods, found by scanning this package for modules that offer a `METHOD`: a new method is a new
file.
"""

import functools
import importlib
import pkgutil
from collections.abc import Mapping

from nevis_stream.dynamic_evaluation.method import Method
from nevis_stream.errors import BadInput, unknown

__all__ = ["get", "registry"]


@functools.cache
def registry() -> Mapping[str, Method]:
    """Returns all methods by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    return {module.METHOD.name: module.METHOD for module in modules if hasattr(module, "METHOD")}


def get(name: str) -> Method:
    """Returns the method of this name.

    Raises:
      BadInput: no such method; the message lists the valid names.
    """
    if name not in registry():
        raise BadInput(unknown("method", name, registry()))
    return registry()[name]


def __getattr__(name: str):
    """`METHODS`: the registry, filled when it is first asked for."""
    if name == "METHODS":
        return registry()
    raise AttributeError(
        f"module {__name__!r} has no attribute {name!r}; it offers: METHODS, {', '.join(__all__)}"
    )
