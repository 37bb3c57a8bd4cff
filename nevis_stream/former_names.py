"""Former names that users' files and recorded ones have: what they mean now, and until when.

`experiments` and `learners` are the former import names of two packages of this project.

Config files and learners that import them, and recorded names like `learners.config:Class`, keep
working: each such module is the one of nevis_stream, never a second copy of it. A package of the
user's that has such a name comes first.
"""

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType

FORMER = {
    "experiments": ("nevis_stream.experiments", "0.2"),
    "learners": ("nevis_stream.learners", "0.2"),
    "Context.sparing": ("Context.small_batches", "0.2"),
    "Config.BUDGETS": ("Config.PRESETS", "0.2"),
}
"""A former name: the present one, and the version from which the former one is unknown."""
PACKAGES = tuple(name for name in FORMER if "." not in name)


def present_name(module: str) -> str:
    """Returns the name of a module now.

    >>> present_name("learners.config"), present_name("learners_of_mine")
    ('nevis_stream.learners.config', 'learners_of_mine')
    """
    package, *rest = module.split(".")
    return ".".join([FORMER[package][0], *rest]) if package in PACKAGES else module


def find_package(name: str) -> ModuleSpec | None:
    """Returns how a package is imported under its former name; None if it is not one of these."""
    if name not in PACKAGES:
        return None
    if _aliases not in sys.meta_path:
        sys.meta_path.insert(0, _aliases)  # before the finder that would load a file again
    return ModuleSpec(name, _aliases, is_package=True)


def adopt(name: str) -> None:
    """Lets the package `name`, just imported from a checkout, be that of nevis_stream."""
    find_package(name)
    sys.modules[name] = importlib.import_module(present_name(name))


class _Aliases:
    """Finds and loads the modules of packages that were imported under their former names."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Finds a module within a package that is already known under its former name."""
        package = name.partition(".")[0]
        known = getattr(sys.modules.get(package), "__name__", None) == f"nevis_stream.{package}"
        spec = importlib.util.find_spec(present_name(name)) if known and "." in name else None
        return spec and ModuleSpec(name, self, origin=spec.origin)

    def create_module(self, spec: ModuleSpec) -> None:
        """Leaves it to Python: what it makes is replaced by the module itself."""

    def exec_module(self, module: ModuleType) -> None:
        """Puts the module of nevis_stream in the place of `module`."""
        sys.modules[module.__name__] = importlib.import_module(present_name(module.__name__))

    def get_code(self, name: str) -> CodeType | None:
        """Returns the code, for `python -m`."""
        spec = importlib.util.find_spec(present_name(name))
        if not (spec and hasattr(spec.loader, "get_code")):
            return None
        return spec.loader.get_code(spec.name)


_aliases = _Aliases()
