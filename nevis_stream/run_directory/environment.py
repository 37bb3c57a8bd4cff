"""environment.jsonl: versions, devices, cores and digests of the user's code of each process that
worked in a run directory, to explain differences between runs.
"""

import contextlib
import functools
import importlib.metadata
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from nevis_stream.storage import append_line
from nevis_stream.storage.canonical import encode
from nevis_stream.storage.checks import json_object
from nevis_stream.storage.reading import parse_json, read_bytes

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
        "processor": _processor(),
        "cores": cores(),
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


def last_code(run_dir: Path) -> dict[str, str]:
    """Returns the digests of the user's code that the process that worked last in a run directory
    recorded; empty if there are none.
    """
    recorded = [
        facts["code"] for facts in _read_recorded(run_dir) if isinstance(facts.get("code"), dict)
    ]
    return recorded[-1] if recorded else {}


def conventions(run_dir: Path) -> dict[str, int]:
    """Returns the versions of conventions with which the first process that worked in a run
    directory began; empty if it recorded none, as before they had versions.
    """
    versions = next(iter(_read_recorded(run_dir)), {}).get("conventions")
    return versions if isinstance(versions, dict) else {}


def changed_versions(run_dir: Path) -> list[str]:
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


def cores() -> int:
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
            facts = dict(json_object(parse_json(line)))
            processes.append(facts | json_object(facts.pop("packages", {})))
        except ValueError:
            continue
    return processes


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()
