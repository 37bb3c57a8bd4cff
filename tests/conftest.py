"""Tests never see the data that the user has prepared."""

import os
import shutil
import tempfile
from pathlib import Path

import hypothesis
import pytest

from launch import entry

# Compiled programs are kept where commands keep them: files of tests that run on different workers
# share them, and a second run of the tests compiles little. JAX reads this when it is imported.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(entry.compilation_cache()))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", str(entry.CACHED_SECONDS))

# The time of an example depends more on the load of the machine than on the code.
hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")

# The files that take the most CPU seconds, the longest first: what is begun last should soon be
# done. xdist begins the files of most tests first, and those are quick (so the Makefile has
# --no-loadscope-reorder).
LONGEST = (
    "tests/test_kill.py",
    "tests/datasets/test_local25.py",
    "tests/learners/test_trials.py",
    "tests/learners/test_transfer.py",
    "tests/learners/test_fit.py",
    "tests/learners/test_networks.py",
    "tests/launch/test_run.py",
    "tests/launch/test_slurm.py",
    "tests/datasets/test_preparation.py",
    "tests/launch/test_executors.py",
    "tests/report/test_report.py",
    "tests/report/test_statements.py",
    "tests/dynamic_evaluation/test_methods.py",
    "tests/dynamic_evaluation/test_recommended.py",
    "tests/launch/test_sweep.py",
    "tests/launch/test_evaluate.py",
)


def pytest_collection_modifyitems(items):
    """Begins with the longest files."""
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(LONGEST)))


@pytest.fixture(scope="session", autouse=True)
def own_data_root(tmp_path_factory):
    """Prepared data of the tests are in a separate folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NEVIS_STREAM_DATA", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture(scope="module")
def memory_folder(tmp_path_factory):
    """A folder in memory where there is one: what is written survives kill -9 without a disk, and a
    sync takes no time.
    """
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK) or shutil.disk_usage(memory).free < 2**30:
        yield tmp_path_factory.mktemp("memory")
        return
    with tempfile.TemporaryDirectory(prefix="tests-", dir=memory) as folder:
        yield Path(folder)
