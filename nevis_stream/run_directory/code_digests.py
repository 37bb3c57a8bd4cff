"""Digests of a user's code: of the modules that define a learner and a stream, and of those of the
user's that they import.

A module with a file is the sha256 of the file. What a notebook or a script defines itself
(`__main__`) is the digest of the compiled functions and the constants that the class reaches, so
that other cells and lines may change. Code of this project, of Python and of installed packages is
left out, except a learner that is itself installed.
"""

import ast
import contextlib
import hashlib
import importlib.util
import inspect
import sys
import sysconfig
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from nevis_stream.storage.reading import read_bytes

Digests = dict[str, str]
"""By the name of a module: 16 hex digits."""

_OURS = ("nevis_stream", "learners", "experiments", "launch", "benchmarks")
_PROJECT = Path(__file__).resolve().parents[2]
_CONSTANTS = int | float | str | bytes | None | tuple | frozenset
_NOT_CODE = ("__dict__", "__doc__", "__firstlineno__", "__module__", "__weakref__")
_MAIN = f"__main__ (Python {sys.version_info.major}.{sys.version_info.minor})"


def digests(things: Iterable[Any], modules: Iterable[str] = ()) -> Digests:
    """Returns the digests of the user's code that defines some objects.

    Args:
      things: a learner, a stream.
      modules: names of further modules to begin from, if they are imported.
    """
    found = _Found()
    for name in modules:
        found.module(name, first=True)
    for thing in things:
        found.thing(thing)
    return found.digests()


def difference(before: Digests, now: Digests) -> list[str]:
    """Returns the modules whose code changed. A module that only one of the two has is not named,
    since it may be imported late, unless they have none in common.
    """
    changed = [name for name in before if now.get(name, before[name]) != before[name]]
    files = [{name for name in each if not name.startswith("__main__")} for each in (before, now)]
    if all(files) and not files[0] & files[1]:
        changed += sorted(files[0])
    return changed


class _Found:
    """Collects modules and the code of `__main__`."""

    def __init__(self):
        self._files: dict[str, Path] = {}
        self._main: dict[str, str] = {}
        self._seen: set[int] = set()

    def digests(self) -> Digests:
        result = {name: _hash(read_bytes(file)) for name, file in sorted(self._files.items())}
        if self._main:
            result[_MAIN] = _hash("\n".join(map(str, sorted(self._main.items()))).encode())
        return result

    def thing(self, thing: Any) -> None:
        """Adds the classes of an object, and the functions and classes that it has as values."""
        for each in type(thing).__mro__:
            self._value(each, each.__name__, first=each is type(thing))
        for name, value in vars(thing).items() if hasattr(thing, "__dict__") else ():
            holder = isinstance(value, type | types.FunctionType)
            self._value(value if holder else type(value), f"{type(thing).__name__}.{name}")

    def module(self, name: str, first: bool = False) -> None:
        """Adds a module and those that it imports."""
        if name in self._files or name == "__main__":
            return
        file = _file(name)
        if file is None or not (_is_users(file) or (first and not _is_ours(name, file))):
            return
        self._files[name] = file
        for imported in _imports(name, file):
            self.module(imported)

    def _value(self, value: Any, place: str, first: bool = False) -> None:
        """Adds a class, a function or a constant that code refers to."""
        value = inspect.unwrap(value) if callable(value) else value
        value = getattr(value, "func", value)  # of a functools.partial
        if isinstance(value, types.ModuleType):
            self.module(value.__name__)
        elif isinstance(value, _CONSTANTS):
            self._main[place] = _constant(value)
        elif getattr(value, "__module__", None) not in (None, "__main__"):
            self.module(value.__module__, first)
        elif id(value) not in self._seen:
            self._seen.add(id(value))
            if isinstance(value, type):
                for name, member in sorted(vars(value).items()):
                    if name not in _NOT_CODE:
                        member = getattr(member, "__func__", getattr(member, "fget", member))
                        self._value(member, f"{place}.{name}")
            elif isinstance(value, types.FunctionType):
                self._main[place] = _text(value.__code__) + _constant(value.__defaults__)
                for name, each in sorted(_list_used(value).items(), key=lambda used: used[0]):
                    self._value(each, name)


def _text(code: types.CodeType) -> str:
    """Returns what a function does: its instructions, names and constants, without its place."""
    constants = (
        _text(each) if isinstance(each, types.CodeType) else _constant(each)
        for each in code.co_consts
    )
    return repr((code.co_code, code.co_names, code.co_varnames, *constants))


def _constant(value: Any) -> str:
    """Returns a constant as text that is the same in every process."""
    if isinstance(value, frozenset | tuple):
        parts = [_constant(each) for each in value]
        return str(sorted(parts) if isinstance(value, frozenset) else parts)
    plain = isinstance(value, _CONSTANTS | types.EllipsisType | complex)
    return repr(value) if plain else type(value).__name__


def _list_used(function: types.FunctionType) -> dict[str, Any]:
    """Returns the globals and the variables of enclosing functions that a function uses."""
    names = set(_names(function.__code__))
    used = {name: value for name, value in function.__globals__.items() if name in names}
    with contextlib.suppress(ValueError):  # a variable that has no value yet
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        used |= {name: cell.cell_contents for name, cell in cells}
    return used


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _names(each)


def _file(name: str) -> Path | None:
    module = sys.modules.get(name)
    try:
        spec = None if module or "." in name else importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        spec = None
    found = getattr(module, "__file__", None) or getattr(spec, "origin", None)
    file = Path(found).resolve() if found else None
    return file if file and file.suffix == ".py" and file.is_file() else None


def _is_ours(name: str, file: Path) -> bool:
    return name.partition(".")[0] in _OURS and file.is_relative_to(_PROJECT)


def _is_users(file: Path) -> bool:
    if {"site-packages", "dist-packages"} & set(file.parts):
        return False
    python = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")}
    ours = [_PROJECT / package for package in _OURS]
    return not any(file.is_relative_to(folder) for folder in (*python, *ours))


def _imports(name: str, file: Path) -> Iterator[str]:
    """Yields the names of the modules that a file may import, anywhere in it."""
    try:
        tree = ast.parse(read_bytes(file))
    except (SyntaxError, ValueError, RecursionError):
        return
    module = sys.modules.get(name)
    package = name if hasattr(module, "__path__") else name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_parents(alias.name)
        elif isinstance(node, ast.ImportFrom):
            above = package.rsplit(".", node.level - 1)[0] if node.level else ""
            base = ".".join(filter(None, (above, node.module)))
            if base:
                yield from _with_parents(base)
                yield from (f"{base}.{alias.name}" for alias in node.names)


def _with_parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    yield from (".".join(parts[:length]) for length in range(1, len(parts) + 1))


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
