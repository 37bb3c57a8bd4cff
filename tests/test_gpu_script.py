"""benchmarks/gpu.sh: its list, its mistakes, and pieces in their tiny form on a CPU."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "benchmarks" / "gpu.sh"


def gpu(*words, **variables):
    environment = os.environ | {"NEVIS_STREAM_DRY": "1", "PYTHON": sys.executable} | variables
    return subprocess.run(
        ["bash", str(SCRIPT), *map(str, words)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
        check=False,
    )


def test_every_piece_is_listed_and_each_fits_into_ten_minutes():
    done = gpu()
    assert done.returncode == 0, done.stderr
    listed = dict(re.findall(r"^(\w+) +(\d+)  \S", done.stdout, re.M))
    valid = re.search(r"^    (wheels \|.*)\)$", SCRIPT.read_text(), re.M)[1].split(" | ")
    assert list(listed) == valid
    assert all(int(minutes) <= 10 for minutes in listed.values())


def test_the_modules_that_it_runs_exist():
    modules = re.findall(r'bench "?[^"\n]*"? \\?\s*"[^"]+" ([\w.]+)', SCRIPT.read_text())
    assert len(set(modules)) >= 6
    for module in modules:
        place = module.replace(".", "/") if "." in module else f"benchmarks/{module}"
        assert (ROOT / f"{place}.py").exists(), module


def test_an_unknown_piece_is_refused():
    done = gpu("trails")
    assert done.returncode == 2
    assert "no piece is named 'trails'" in done.stderr and "\ntrials " in done.stderr


def test_wheels_names_every_dependency_and_installs_from_a_folder(tmp_path):
    wheels, out = tmp_path / "wheels", tmp_path / "out"
    wheels.mkdir()
    with zipfile.ZipFile(wheels / "tiny_thing-1.0-py3-none-any.whl", "w") as wheel:
        facts = "tiny_thing-1.0.dist-info"
        wheel.writestr("tiny_thing.py", "")
        wheel.writestr(
            f"{facts}/METADATA", "Metadata-Version: 2.1\nName: tiny-thing\nVersion: 1.0\n"
        )
        wheel.writestr(
            f"{facts}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{facts}/RECORD", "")
    done = gpu("wheels", out, NEVIS_STREAM_WHEELS=str(wheels))
    assert done.returncode == 0, (done.stdout, (out / "wheels.md.log").read_text())
    table = (out / "wheels.md").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for need in project["dependencies"]:
        assert re.search(rf"^{re.escape(need)}: \d", table, re.M), need
    assert (out / "site" / "tiny_thing.py").exists()


def test_a_piece_that_fails_says_so(tmp_path):
    done = gpu("wheels", tmp_path / "out", NEVIS_STREAM_WHEELS=str(tmp_path / "missing"))
    assert done.returncode == 1
    assert "FAILED with exit status" in (tmp_path / "out" / "wheels.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["evaluation", "stream"])
def test_a_piece_in_its_tiny_form(tmp_path, piece):
    done = gpu(piece, tmp_path)
    assert done.returncode == 0, (done.stdout, (tmp_path / f"{piece}.md.log").read_text())
    assert "\n|---" in (tmp_path / f"{piece}.md").read_text()
