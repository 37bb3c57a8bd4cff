"""The wheel as a user has it: built once, in an environment of its own."""

import importlib.metadata
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("nevis_stream", "learners", "experiments", "launch", "pyproject.toml")


def make_environment(folder):
    """Returns an environment with the wheel; it has the libraries of this one, not the checkout."""
    if int(importlib.metadata.version("setuptools").partition(".")[0]) < 77:
        pytest.skip("a wheel is built by setuptools 77 or newer: pip install -e '.[dev]'")
    build = folder / "build"
    build.mkdir()
    for name in (*SOURCES, "README.md", "LICENSE"):
        (build / name).symlink_to(ROOT / name)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    wheel = [*pip, "wheel", "-q", "--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*wheel, "-w", str(folder / "wheels"), str(build)], check=True)
    environment = folder / "environment"
    venv.create(environment, symlinks=True)
    (site,) = environment.glob("lib/python*/site-packages")
    libraries = [path for path in sys.path if path.endswith("-packages")]
    (site / "libraries.pth").write_text("\n".join(libraries))
    (file,) = (folder / "wheels").iterdir()
    install = ["--python", str(environment / "bin" / "python"), "install", "-q", "--no-compile"]
    subprocess.run([*pip, *install, "--no-deps", "--no-index", str(file)], check=True)
    return environment
