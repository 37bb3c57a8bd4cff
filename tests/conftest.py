"""Tests never see the data that the user has prepared."""

import os
import shutil
import tempfile
from pathlib import Path

import hypothesis
import pytest

# How long an example takes says more of what else the machine does than of the code.
hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")


@pytest.fixture(scope="session", autouse=True)
def own_data_root(tmp_path_factory):
    """Prepared data of the tests lie in a folder of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NEVIS_STREAM_DATA", str(tmp_path_factory.mktemp("data")))
        yield


@pytest.fixture(scope="module")
def memory_folder(tmp_path_factory):
    """A folder in memory where there is one: what is written survives kill -9 without a disk, and a sync takes no time."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK) or shutil.disk_usage(memory).free < 2**30:
        yield tmp_path_factory.mktemp("memory")
        return
    with tempfile.TemporaryDirectory(prefix="tests-", dir=memory) as folder:
        yield Path(folder)
