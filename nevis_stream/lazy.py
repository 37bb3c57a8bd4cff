"""Packages that are an index: their names are imported when they are first used.

So importing such a package is quick. Its names are written twice, as `TYPE_CHECKING` imports for
type checkers and editors and in a table for this module; a test compares the two.
"""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def load_lazily(
    package: str, homes: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns the functions `__getattr__` and `__dir__` of a package.

    Args:
      package: its name.
      homes: by name, the module in which it is, within the package.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}; it offers: {', '.join(homes)}"
            )
        value = getattr(importlib.import_module(f"nevis_stream.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return get, names
