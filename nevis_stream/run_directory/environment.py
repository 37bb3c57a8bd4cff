"""What a run was made with: machine, versions, conventions, the user's code, and readings of data.

environment.jsonl has versions, devices, cores and digests of the user's code of each process that
worked in a run directory, to explain differences between runs. readings.json has what the files of
its data sets were understood as.

A run's config.json states the versions of the conventions by which figures are made. A convention
that was never changed is not recorded: a config without one was begun under version 1. A run goes
on only under the versions with which it was begun.

A user's code is the modules that define a learner and a stream, and those of the user's that they
import. The digest of a module with a file is the sha256 of the file. What a notebook or a script
defines itself (`__main__`) is the digest of the compiled functions and the constants that the class
reaches, so that other cells and lines may change. Code of this project, of Python and of installed
packages is left out, except a learner that is itself installed.
"""

import ast
import contextlib
import functools
import hashlib
import importlib.metadata
import importlib.util
import inspect
import json
import os
import platform
import subprocess
import sys
import sysconfig
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nevis_stream.datasets.reading import Reading
from nevis_stream.errors import BadInput
from nevis_stream.storage import append_line, write_file
from nevis_stream.storage.reading import parse_json, read_bytes, read_json
from nevis_stream.storage.record import check_object, encode

FILE_NAME = "environment.jsonl"
_PACKAGES = (
    "nevis_stream",
    "jax",
    "jaxlib",
    "flax",
    "optax",
    "numpy",
    "scikit-learn",
    "scikit-image",
    "pillow",
)
_ROOT = Path(__file__).resolve().parents[2]


def describe_environment() -> dict[str, Any]:
    """Returns JSON facts: machine, cores, versions and, if JAX is loaded, its devices."""
    facts: dict[str, Any] = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system(),
        "processor": _read_processor(),
        "cores": count_cores(),
        "packages": {},
    }
    if commit := project_commit():
        facts["project"] = commit
    for package in _PACKAGES:
        try:
            facts["packages"][package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    if "jax" in sys.modules:
        import jax

        facts["devices"] = [device.device_kind for device in jax.devices()]
        facts["backend"] = jax.default_backend()
    return facts


@functools.cache
def project_commit(root: Path = _ROOT) -> str | None:
    """Returns the commit of the project's checkout at `root`, with "-dirty" if it was changed
    since, or that from which it was installed; None if neither is known.
    """
    if (root / ".git").exists():
        words = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"]
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run(
                [*words, "--exclude=*"], capture_output=True, text=True, timeout=20, check=True
            )
            return done.stdout.strip()
    try:
        origin = importlib.metadata.distribution("nevis_stream").read_text("direct_url.json")
        return parse_json(origin or "{}")["vcs_info"]["commit_id"][:12]
    except (importlib.metadata.PackageNotFoundError, ValueError, KeyError, TypeError):
        return None


def read_last_code(run_dir: Path) -> dict[str, str]:
    """Returns the digests of the user's code that the process that worked last in a run directory
    recorded; empty if there are none.
    """
    recorded = [
        facts["code"] for facts in _read_recorded(run_dir) if isinstance(facts.get("code"), dict)
    ]
    return recorded[-1] if recorded else {}


def read_conventions(run_dir: Path) -> dict[str, int]:
    """Returns the versions of conventions with which the first process that worked in a run
    directory began; empty if it recorded none, as before they had versions.
    """
    versions = next(iter(_read_recorded(run_dir)), {}).get("conventions")
    return versions if isinstance(versions, dict) else {}


def find_changed_versions(run_dir: Path) -> list[str]:
    """Returns which versions of the project and of packages differ from those of the process that
    worked last in a run directory: "jax 0.10.1, now 0.10.2".
    """
    recorded, facts = _read_recorded(run_dir), describe_environment()
    now = facts["packages"] | {"project": facts.get("project")}
    last = recorded[-1] if recorded else {}
    pairs = [(name, last.get(name), now[name]) for name in now]
    return [f"{name} {old}, now {new}" for name, old, new in pairs if old and new and old != new]


def _read_recorded(run_dir: Path) -> list[dict[str, Any]]:
    file = run_dir / FILE_NAME
    return read(file) if file.exists() else []


def count_cores() -> int:
    """Returns the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def append(run_dir: Path, **options: Any) -> None:
    """Adds one line to environment.jsonl: `describe_environment`, and options of the process."""
    append_line(run_dir / FILE_NAME, encode(describe_environment() | options))


def read(file: Path) -> list[dict[str, Any]]:
    """Returns the facts that environment.jsonl has of each process, packages among them; lines that
    are cut or damaged are left out.

    Raises:
      OSError: the file cannot be read.
    """
    processes = []
    for line in read_bytes(file).splitlines():
        try:
            facts = dict(check_object(parse_json(line)))
            processes.append(facts | check_object(facts.pop("packages", {})))
        except ValueError:
            continue
    return processes


def _read_processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()


CONVENTIONS_KEY = "conventions"
"""The name in config.json."""


@dataclass(frozen=True)
class Convention:
    """How something is measured.

    Attributes:
      version: the current one, from 1.
      change: what the current version does, as the end of "since this version …".
      everywhere: whether it holds for every run and decides costs alone, not predictors. Then its
        version is not part of the config's hash. Other conventions are those of the learners whose
        attribute `conventions` names them.
    """

    version: int
    change: str
    everywhere: bool = False


CONVENTIONS = {
    "flops": Convention(
        2,
        "Fourier transforms, complex numbers, ragged products, the index of the largest and"
        " branches that a loop's counter decides count what runs",
        everywhere=True,
    ),
    "relatedness": Convention(
        2, "images are compared in a random order instead of the order of their file"
    ),
}


def list_conventions(learner: Any) -> dict[str, int]:
    """Returns the versions that a run of this learner records, by name."""
    used = getattr(learner, CONVENTIONS_KEY, ())
    used = used if isinstance(used, tuple) else ()  # something else of the user's
    return {
        name: each.version
        for name, each in CONVENTIONS.items()
        if each.version > 1 and (each.everywhere or name in used)
    }


def identify(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of a config that identify its predictors."""
    versions = {
        name: version
        for name, version in values.get(CONVENTIONS_KEY, {}).items()
        if name not in CONVENTIONS or not CONVENTIONS[name].everywhere
    }
    return {name: value for name, value in values.items() if name != CONVENTIONS_KEY} | (
        {CONVENTIONS_KEY: versions} if versions else {}
    )


def refuse_other_conventions(place: Any, there: Mapping[str, int], now: Mapping[str, int]) -> None:
    """Raises `BadInput` if the versions of an unfinished run are not those of today.

    Args:
      place: the run directory.
      there: versions with which the run was begun.
      now: versions of today.
    """
    for name in sorted(there | now):
        before, today = there.get(name, 1), now.get(name, 1)
        if before != today:
            reason = (
                f" (since version {today} {CONVENTIONS[name].change})" if before < today else ""
            )
            raise BadInput(
                f"{place}: this run was begun with version {before} of {name!r}, which is at"
                f" version {today} now{reason}, so the tasks that are left could not be compared"
                " with the first ones. It can be read (report, compare, watch) but not continued."
                " Choose another run_dir."
            )


Digests = dict[str, str]
"""By the name of a module: 16 hex digits."""

_OURS = ("nevis_stream", "learners", "experiments", "launch", "benchmarks")
_PROJECT = Path(__file__).resolve().parents[2]
_CONSTANTS = int | float | str | bytes | None | tuple | frozenset
_NOT_CODE = ("__dict__", "__doc__", "__firstlineno__", "__module__", "__weakref__")
_MAIN = f"__main__ (Python {sys.version_info.major}.{sys.version_info.minor})"


def digest_code(things: Iterable[Any], modules: Iterable[str] = ()) -> Digests:
    """Returns the digests of the user's code that defines some objects.

    Args:
      things: a learner, a stream.
      modules: names of further modules to begin from, if they are imported.
    """
    collector = _CodeCollector()
    for name in modules:
        collector.add_module(name, first=True)
    for thing in things:
        collector.add_object(thing)
    return collector.compute_digests()


def compare_code(before: Digests, now: Digests) -> list[str]:
    """Returns the modules whose code changed. A module that only one of the two has is not named,
    since it may be imported late, unless they have none in common.
    """
    changed = [name for name in before if now.get(name, before[name]) != before[name]]
    files = [{name for name in each if not name.startswith("__main__")} for each in (before, now)]
    if all(files) and not files[0] & files[1]:
        changed += sorted(files[0])
    return changed


class _CodeCollector:
    """Collects modules and the code of `__main__`."""

    def __init__(self):
        self._files: dict[str, Path] = {}
        self._main: dict[str, str] = {}
        self._seen: set[int] = set()

    def compute_digests(self) -> Digests:
        result = {name: _hash(read_bytes(file)) for name, file in sorted(self._files.items())}
        if self._main:
            result[_MAIN] = _hash("\n".join(map(str, sorted(self._main.items()))).encode())
        return result

    def add_object(self, thing: Any) -> None:
        """Adds the classes of an object, and the functions and classes that it has as values."""
        for each in type(thing).__mro__:
            self._add_value(each, each.__name__, first=each is type(thing))
        for name, value in vars(thing).items() if hasattr(thing, "__dict__") else ():
            holder = isinstance(value, type | types.FunctionType)
            self._add_value(value if holder else type(value), f"{type(thing).__name__}.{name}")

    def add_module(self, name: str, first: bool = False) -> None:
        """Adds a module and those that it imports."""
        if name in self._files or name == "__main__":
            return
        file = _find_file(name)
        if file is None or not (_is_users(file) or (first and not _is_ours(name, file))):
            return
        self._files[name] = file
        for imported in _list_imports(name, file):
            self.add_module(imported)

    def _add_value(self, value: Any, place: str, first: bool = False) -> None:
        """Adds a class, a function or a constant that code refers to."""
        value = inspect.unwrap(value) if callable(value) else value
        value = getattr(value, "func", value)  # of a functools.partial
        if isinstance(value, types.ModuleType):
            self.add_module(value.__name__)
        elif isinstance(value, _CONSTANTS):
            self._main[place] = _describe_constant(value)
        elif getattr(value, "__module__", None) not in (None, "__main__"):
            self.add_module(value.__module__, first)
        elif id(value) not in self._seen:
            self._seen.add(id(value))
            if isinstance(value, type):
                for name, member in sorted(vars(value).items()):
                    if name not in _NOT_CODE:
                        member = getattr(member, "__func__", getattr(member, "fget", member))
                        self._add_value(member, f"{place}.{name}")
            elif isinstance(value, types.FunctionType):
                self._main[place] = _describe_code(value.__code__) + _describe_constant(
                    value.__defaults__
                )
                for name, each in sorted(_list_used(value).items(), key=lambda used: used[0]):
                    self._add_value(each, name)


def _describe_code(code: types.CodeType) -> str:
    """Returns what a function does: its instructions, names and constants, without its place."""
    constants = (
        _describe_code(each) if isinstance(each, types.CodeType) else _describe_constant(each)
        for each in code.co_consts
    )
    return repr((code.co_code, code.co_names, code.co_varnames, *constants))


def _describe_constant(value: Any) -> str:
    """Returns a constant as text that is the same in every process."""
    if isinstance(value, frozenset | tuple):
        parts = [_describe_constant(each) for each in value]
        return str(sorted(parts) if isinstance(value, frozenset) else parts)
    plain = isinstance(value, _CONSTANTS | types.EllipsisType | complex)
    return repr(value) if plain else type(value).__name__


def _list_used(function: types.FunctionType) -> dict[str, Any]:
    """Returns the globals and the variables of enclosing functions that a function uses."""
    names = set(_list_names(function.__code__))
    used = {name: value for name, value in function.__globals__.items() if name in names}
    with contextlib.suppress(ValueError):  # a variable that has no value yet
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        used |= {name: cell.cell_contents for name, cell in cells}
    return used


def _list_names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield from _list_names(each)


def _find_file(name: str) -> Path | None:
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


def _list_imports(name: str, file: Path) -> Iterator[str]:
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
                yield from _list_parents(alias.name)
        elif isinstance(node, ast.ImportFrom):
            above = package.rsplit(".", node.level - 1)[0] if node.level else ""
            base = ".".join(filter(None, (above, node.module)))
            if base:
                yield from _list_parents(base)
                yield from (f"{base}.{alias.name}" for alias in node.names)


def _list_parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    yield from (".".join(parts[:length]) for length in range(1, len(parts) + 1))


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


READINGS_FILE = "readings.json"
LARGEST_READINGS = 2**22  # bytes; a stream of 106 tasks has fewer


def write_readings(directory: Path, readings: Mapping[str, Reading]) -> None:
    """Writes the readings by dataset_id, if any data set was read from files."""
    if readings:
        values = {name: reading.to_json() for name, reading in readings.items()}
        text = json.dumps(values, indent=1, ensure_ascii=False) + "\n"
        write_file(directory / READINGS_FILE, text.encode())


def read_readings(file: Path) -> dict[str, Reading]:
    """Reads readings.json.

    Raises:
      OSError: it cannot be read.
      ValueError: it is damaged.
    """
    try:
        values = check_object(read_json(file, LARGEST_READINGS))
        return {name: Reading.from_json(each) for name, each in values.items()}
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"is damaged ({error})") from None
