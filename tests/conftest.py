"""Tests never see the data that the user has prepared."""

import functools
import gc
import importlib.metadata
import os
import shutil
import sys
from pathlib import Path

import hypothesis
import pytest

from nevis_stream.datasets import sources
from nevis_stream.launch import entry
from tests import array_shapes, wheel

array_shapes.install_if_wanted()  # before the packages are imported

# Compiled programs are kept where commands keep them: files of tests that run on different workers
# share them, and a second run of the tests compiles little. JAX reads this when it is imported.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(entry.find_compilation_cache()))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")

# Each process of a test would compile the project's modules, and the tests' own, anew: a second.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Most of the tests' time is compilation of small programs. LLVM need not optimise them, XLA's older
# emitters of fused loops compile in two thirds of the time, and a program that is not cut into 32
# parts, to be compiled by as many threads, in little more than half of it (150 ms and 87 for a step
# of training); JAX 0.11 has not all of these flags, and ends at one that it does not know. What
# they compute stays the same up to rounding; `benchmarks/` and `make demo` run what users run.
flags = ["--xla_backend_optimization_level=0"]
if importlib.metadata.version("jaxlib").startswith("0.10."):
    flags += ["--xla_cpu_use_fusion_emitters=false", "--xla_cpu_parallel_codegen_split_count=1"]
os.environ.setdefault("XLA_FLAGS", " ".join(flags))

# Each worker has cores of its own: the threads of programs that share cores wait for one another.
# JAX counts the cores when it is imported.
if "PYTEST_XDIST_WORKER" in os.environ and hasattr(os, "sched_setaffinity"):
    cores, workers = sorted(os.sched_getaffinity(0)), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    own = cores[int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw")) :: workers]
    if own:
        os.sched_setaffinity(0, own)

# Tracing makes millions of objects that live long; to look for garbage among them takes 3% of the
# time.
gc.set_threshold(200_000, 20, 100)

# Files of tests are in memory where there is room for them: a sync of a disk takes as long as much
# of what is tested, and what is in memory survives a killed process as well. pytest reads this
# when it makes its first folder.
MEMORY = Path("/dev/shm")
if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 4 * 2**30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

# The time of an example depends more on the load of the machine than on the code.
hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")

# The files that take the most CPU seconds, the longest first: what is begun last should soon be
# done. xdist begins the files of most tests first, and those are quick (so the Makefile has
# --no-loadscope-reorder).
LONGEST = (
    "tests/test_documented_commands.py",
    "tests/test_docs.py",
    "tests/dynamic_evaluation/test_guarded.py",
    "tests/learners/test_closed_form.py",
    "tests/dynamic_evaluation/test_methods.py",
    "tests/test_public_api.py",
    "tests/test_array_shapes.py",
    "tests/launch/test_run.py",
    "tests/learners/test_networks.py",
    "tests/learners/test_transfer.py",
    "tests/launch/test_evaluate.py",
    "tests/dynamic_evaluation/test_response_posterior.py",
    "tests/streams/adaptive/test_stream.py",
    "tests/report/test_statements.py",
    "tests/datasets/test_preparation.py",
    "tests/contracts/test_learners.py",
    "tests/dynamic_evaluation/test_reinforcement.py",
    "tests/launch/test_user_code.py",
    "tests/launch/test_sweep.py",
    "tests/learners/test_fit.py",
    "tests/datasets/test_local25.py",
    "tests/dynamic_evaluation/test_fits.py",
    "tests/experiments/rollouts/test_rollouts.py",
    "tests/launch/test_label.py",
    "tests/learners/test_averaging.py",
    "tests/test_runner.py",
    "tests/launch/test_evaluate_scores.py",
    "tests/report/test_report.py",
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
def embedded_once():
    """Embedded data sets are made once for all tests of a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "build_embedded", functools.cache(sources.build_embedded))
        yield


@pytest.fixture(scope="session")
def wheel_environment(tmp_path_factory):
    """The folder of an environment in which the built wheel is installed."""
    return wheel.make_environment(tmp_path_factory.mktemp("wheel"))
