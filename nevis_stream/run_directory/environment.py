"""Versions, devices and cores of a process, so that differences between runs can be explained."""

import importlib.metadata
import os
import platform
import sys
from pathlib import Path
from typing import Any

from nevis_stream.storage import append_line
from nevis_stream.storage.canonical import encode

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


def describe_environment() -> dict:
    """Returns JSON facts: machine, cores, versions and, where JAX is loaded, its devices."""
    facts = {
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
    """Returns how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def append_environment(path: Path, **options: Any) -> None:
    """Adds one line to environment.jsonl: `describe_environment`, and options of the process."""
    append_line(path, encode(describe_environment() | options))


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()
