"""environment.jsonl: versions, devices and cores of each process that worked in a run directory, to
explain differences between runs.
"""

import importlib.metadata
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

from nevis_stream.run_directory.checks import json_object
from nevis_stream.storage import append_line
from nevis_stream.storage.canonical import encode

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
    for line in file.read_bytes().splitlines():
        try:
            facts = dict(json_object(json.loads(line)))
            processes.append(facts | json_object(facts.pop("packages", {})))
        except (ValueError, RecursionError):
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
