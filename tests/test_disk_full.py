"""A disk that fills up in the middle of a run: a clear stop, nothing lost, the same command
continues.
"""

import subprocess
import sys
import textwrap

import pytest

from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.runner import run
from tests import toy

PROGRAM = """
import resource, signal, sys
from nevis_stream.errors import StorageFull
from nevis_stream.progress import Silent
from nevis_stream.runner import run
from tests import toy
limit = int(sys.argv[2])
if limit:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
try:
    run(toy.ToyLearner(), toy.stream(), sys.argv[1], keep="all", progress=Silent())
except StorageFull as error:
    sys.exit(f"STOPPED {error}")
"""


def attempt(run_dir, limit=0):
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), str(run_dir), str(limit)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return run(
        toy.ToyLearner(), toy.stream(), tmp_path_factory.mktemp("whole"), keep="all"
    ).path.read_bytes()


@pytest.mark.parametrize(
    "limit", [200, 2000, *(pytest.param(n, marks=pytest.mark.slow) for n in (1200, 3000))]
)
def test_no_file_may_grow_further(tmp_path, expected, limit):
    """The system refuses writes beyond a size, as a quota does, at four different moments of the
    run.
    """
    stopped = attempt(tmp_path, limit)
    assert stopped.returncode == 1 and "\nSTOPPED" in "\n" + stopped.stderr, stopped.stderr
    assert (
        "cannot be written" in stopped.stderr and "start the same command again" in stopped.stderr
    )
    before = Ledger(tmp_path).path.read_bytes() if Ledger(tmp_path).path.exists() else b""
    assert expected.startswith(before)
    again = attempt(tmp_path)
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "ledger.jsonl").read_bytes() == expected


def test_a_small_file_system_fills_up(tmp_path, expected):
    """A real file system of 130 kB, then a larger one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(disk)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"mounting is not permitted here: {mounted.stderr.strip()}")
    try:
        stopped = attempt(disk / "run")
        assert stopped.returncode == 1 and "\nSTOPPED" in "\n" + stopped.stderr, stopped.stderr
        assert "No space left on device" in stopped.stderr
        assert expected.startswith((disk / "run" / "ledger.jsonl").read_bytes())
        subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
        again = attempt(disk / "run")
        assert again.returncode == 0, again.stderr
        assert (disk / "run" / "ledger.jsonl").read_bytes() == expected
    finally:
        subprocess.run(["umount", str(disk)], check=True)
