"""Code from outside this project: which of it may run, and where it is found; and former names of
this project's modules in it.

A module is imported if the user wrote its name: on the command line, in a config file, in Python. A
name that was read from a file (a run directory, a data set), which may be a stranger's, is imported
only if the user trusts it. The folders of the user's code, the working directory of a command among
them, are not on Python's path: libraries look for optional modules, and would run a stranger's file
of such a name. Only the modules that the user wrote are found there, and what these import.

`experiments` and `learners` are the former import names of two packages of this project. Config
files and learners that import them, and recorded names like `learners.config:Class`, keep working:
each such module is the one of nevis_stream, never a second copy of it. A package of the user's that
has such a name comes first.
"""

import functools
import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import CodeType, FrameType, ModuleType

from nevis_stream.errors import BadInput

OWN_FOLDER = "own_folder"
"""Package under which the user's module is imported if another one has its name already."""
CONFIG_FILE = "config_file"
"""Name of a config file as a module; it imports what it needs from the user's folders."""


class Untrusted(BadInput):
    """A file names code from outside this project, and the user has not said that it may run."""


class _Finder:
    """Finds modules in the user's folders, for what the user named and for the user's own code.

    Attributes:
      folders: of the user's code.
      names: top-level modules that may be found there, or were; what they import is found too. None
        that Python finds elsewhere: an installed package looks for optional modules.
    """

    def __init__(self):
        self.folders: list[str] = []
        self.names: set[str] = {CONFIG_FILE, OWN_FOLDER}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Finds a top-level module; called by Python after all its other finders."""
        if path is not None or not self.folders:
            return None
        if name not in self.names and _importer(sys._getframe(1)) not in self.names:
            return None
        spec = PathFinder.find_spec(name, self.folders)
        if spec is None:
            return find_package(name)
        self.names.add(name)
        return spec


def _importer(frame: FrameType | None) -> str:
    """Returns the top-level name of the module whose code imports another one."""
    while frame is not None:
        name = frame.f_globals.get("__name__", "").partition(".")[0]
        if name != "importlib" and not frame.f_code.co_filename.startswith("<frozen importlib"):
            return name
        frame = frame.f_back
    return ""


_finder = _Finder()


def look_in(folders: Sequence[str], names: Sequence[str] = ()) -> None:
    """Adds folders of the user's code, and the names of modules that the user wrote."""
    if _finder not in sys.meta_path:
        sys.meta_path.append(_finder)
    _finder.folders += [folder for folder in folders if folder not in _finder.folders]
    _finder.names |= set(names)
    if OWN_FOLDER not in sys.modules:
        sys.modules[OWN_FOLDER] = ModuleType(OWN_FOLDER, "The user's folders, as one package.")
    sys.modules[OWN_FOLDER].__path__ = _finder.folders


def list_places() -> tuple[list[str], list[str]]:
    """Returns the arguments with which `look_in` finds the same modules in another process."""
    return list(_finder.folders), sorted(_finder.names)


def check_trusted(
    name: str, trust: Sequence[str] | None, what: str, ours: Sequence[str] = ()
) -> None:
    """Checks that a module may be imported; call it before `import_module` wherever a name is read.

    Args:
      name: MODULE:ATTRIBUTE.
      trust: modules and packages that the user trusts; None if the user wrote the name.
      what: the name is, for the message, for example "learner".
      ours: packages of this project that need no trust.

    Raises:
      Untrusted: the name was read from a file, and its module is not trusted.
    """
    module = name.partition(":")[0]
    if trust is None or any(_inside(module, package) for package in (*ours, *trust)):
        return
    raise Untrusted(
        f"{what} {name} is code from outside this project, which would be run. If you trust it,"
        f" add --trust={module}."
    )


def import_module(module: str) -> ModuleType:
    """Imports a module whose name the user wrote, or trusts (`check_trusted`).

    Raises:
      Exception: whatever the module raises.
    """
    module = get_present_name(module)
    top = module.partition(".")[0]
    if _is_free(top):
        _finder.names.add(top)
    return importlib.import_module(module)


def _is_free(top: str) -> bool:
    """Whether no module of this top-level name is found without the user's folders."""
    return top not in sys.modules and importlib.util.find_spec(top) is None


def resolve_written_name(name: str) -> str:
    """Returns the name of MODULE:ATTRIBUTE, written by the user, by which it is recorded.

    If one of the user's folders has such a file, but its name belongs to another module, of this
    project or an installed one, the user's file is meant, and a line says so. A recorded name
    means the same on every machine: without the prefix never this file.

    >>> resolve_written_name("learners.closed_form.frontier:Frontier")
    'learners.closed_form.frontier:Frontier'
    """
    module = name.partition(":")[0]
    file = _file_of(module)
    if file is None or module.partition(".")[0] in _finder.names:
        return name
    other = _origin(module)
    if other is None or other == file.resolve():
        return name
    recorded = f"{OWN_FOLDER}.{name}"
    _say_once(
        f"{name}: your file {file} is meant, not the installed {module.partition('.')[0]}; it is"
        f" recorded as {recorded}"
    )
    return recorded


@functools.cache
def _say_once(line: str) -> None:
    print(line, file=sys.stderr)


def _file_of(module: str) -> Path | None:
    """Returns the file of a module in the user's folders, or None."""
    parts = module.split(".")
    for folder in _finder.folders if all(map(str.isidentifier, parts)) else ():
        path = Path(folder, *parts)
        for file in (path / "__init__.py", path.with_name(f"{path.name}.py")):
            if file.is_file():
                return file
    return None


def _origin(module: str) -> Path | None:
    """Returns the file that Python finds under a module's name without the user's folders.

    An empty path: the top-level name belongs to another module, which has no such submodule or is
    not a file. None: the name is free.
    """
    module = get_present_name(module)  # recorded, such a name means this project's module
    if _is_free(module.partition(".")[0]):
        return None
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        spec = None
    return Path(spec.origin).resolve() if spec is not None and spec.has_location else Path()


def _inside(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


FORMER = {
    "experiments": ("nevis_stream.experiments", "0.2"),
    "learners": ("nevis_stream.learners", "0.2"),
    "Context.sparing": ("Context.small_batches", "0.2"),
    "Config.BUDGETS": ("Config.PRESETS", "0.2"),
    "Plan.beliefs": ("Plan.posterior", "0.2"),
    "meter.engineering": ("meter.format_engineering", "0.2"),
    "metrics.for_kind": ("metrics.find_metric", "0.2"),
    "run_config.default": ("run_config.make_default", "0.2"),
    "testing.active_test": ("testing.run_active_test", "0.2"),
    "testing.fixed": ("testing.fix_surrogate", "0.2"),
}
"""A former name: the present one, and the version from which the former one is unknown."""
PACKAGES = tuple(name for name in FORMER if "." not in name)


def get_present_name(module: str) -> str:
    """Returns the name of a module now.

    >>> get_present_name("learners.config"), get_present_name("learners_of_mine")
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
    sys.modules[name] = importlib.import_module(get_present_name(name))


class _Aliases:
    """Finds and loads the modules of packages that were imported under their former names."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Finds a module within a package that is already known under its former name."""
        package = name.partition(".")[0]
        known = getattr(sys.modules.get(package), "__name__", None) == f"nevis_stream.{package}"
        spec = importlib.util.find_spec(get_present_name(name)) if known and "." in name else None
        return spec and ModuleSpec(name, self, origin=spec.origin)

    def create_module(self, spec: ModuleSpec) -> None:
        """Leaves it to Python: what it makes is replaced by the module itself."""

    def exec_module(self, module: ModuleType) -> None:
        """Puts the module of nevis_stream in the place of `module`."""
        sys.modules[module.__name__] = importlib.import_module(get_present_name(module.__name__))

    def get_code(self, name: str) -> CodeType | None:
        """Returns the code, for `python -m`."""
        spec = importlib.util.find_spec(get_present_name(name))
        if not (spec and hasattr(spec.loader, "get_code")):
            return None
        return spec.loader.get_code(spec.name)


_aliases = _Aliases()
