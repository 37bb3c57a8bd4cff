"""The sweep of faults finds what is planted, and runs a real command."""

import json
import os
import subprocess
import sys

import pytest

from tests.launch import test_user_code
from tests.nightly import forking
from tests.nightly.commands import COMMANDS, NOT_SWEPT

IN_PYTHON = ("Session.tell", "Session.run", "Session.run_async", "compare (Python)")
needs_compiler = pytest.mark.skipif(not forking.compiler(), reason="needs a C compiler")


def test_every_command_that_writes_is_in_the_sweep():
    there = {
        f"{name} {each}".strip()
        for name, words in test_user_code.COMMANDS.items()  # all, as another test sees to
        for each in (words if isinstance(words, dict) else [""])
    }
    words = {each.name: each.words if isinstance(each.words, list) else [] for each in COMMANDS}
    swept = {" ".join(each[: 1 + (" ".join(each[:2]) in there)]) for each in words.values() if each}
    functions = {name for name, each in words.items() if not each}
    assert functions == {"data prepare", *IN_PYTHON}
    assert swept | {"data prepare"} | NOT_SWEPT.keys() == there
    assert not swept & NOT_SWEPT.keys()


@needs_compiler
def test_planted_faults_are_found(tmp_path):
    """A writer that does not sync loses at a power cut; one that does not rename, at a kill."""
    command = [sys.executable, "-m", "tests.nightly.planted", str(tmp_path / "work")]
    environment = forking.preload(tmp_path, dict(os.environ))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["write_right"] == {}
    assert set(found["write_without_sync"]["power cut"]) == {"lost", "wrong"}
    assert "kill" not in found["write_without_sync"]
    assert "wrong" in found["write_without_rename"]["kill in a write"]
    assert "litter" in found["write_and_leave"]["kill"]
    assert "traceback" in found["write_and_leave"]["EIO"]


@needs_compiler
@pytest.mark.slow
def test_a_few_points_of_real_commands(tmp_path):
    words = [str(tmp_path), "run", "evaluate import", "label start", "--most=2"]
    command = [sys.executable, "-m", "tests.nightly.sweep", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    counts = done.stdout.split("\n| all | ")[1].splitlines()[0].split(" | ")
    assert int(counts[0]) > 30 and " ".join(counts[-4:]) == "0 0 0 0 |", done.stdout
