"""One suite for every executor of the registry: however the trials run, the result is the same."""

import functools
import importlib.util
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from nevis_stream.errors import BadInput, LearnerFault, NevisStreamError, RunWarning
from nevis_stream.launch.command_line import make_executor
from nevis_stream.launch.executors import EXECUTORS
from nevis_stream.launch.executors.threads import SharedProgress
from nevis_stream.learner import Context
from nevis_stream.learners.parts.baseline import Baseline
from nevis_stream.learners.parts.initialisation import FromPrevious, FromRandom
from nevis_stream.learners.parts.model import Network
from nevis_stream.learners.parts.recipe import Recipe
from nevis_stream.learners.parts.search import BayesianSearch, RandomSearch
from nevis_stream.progress import Silent
from nevis_stream.runner import run
from nevis_stream.storage.checkpoint import EventWorkspace
from tests import toy
from tests.compilations import compiled_programs

ROOT = Path(__file__).resolve().parents[2]
SPACE = {"learning_rate": (0.01, 0.1), "label_smoothing": (0.0, 0.1)}
RECIPE = Recipe(Network("mlp", (("hidden", (16,)),), resolution=8), steps=10, validate_every=5)
LEARNERS = {
    "toy": toy.ToyLearner(),
    # two maps a task: three trials, then one
    "baseline": Baseline(FromPrevious(), BayesianSearch(4, SPACE), RECIPE),
}


@pytest.fixture(scope="module", autouse=True)
def own_folders(tmp_path_factory):
    """Workers of Ray find the environment of their driver; a cluster that a test started ends with
    this module.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NEVIS_STREAM_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
    if "ray" in sys.modules:
        sys.modules["ray"].shutdown()


def built(name):
    if name == "ray" and importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed: pip install ray")
    return EXECUTORS[name](**({"workers": 2} if name == "threads" else {}))


@pytest.fixture(params=EXECUTORS)
def executor(request):
    return built(request.param)


@pytest.fixture(scope="module")
def references(tmp_path_factory):
    """Ledgers of runs with trials one after the other."""

    @functools.cache
    def of(name):
        return run(
            LEARNERS[name], toy.stream(), tmp_path_factory.mktemp(name), seed=1
        ).path.read_bytes()

    return of


@pytest.mark.parametrize(
    ("executor", "name"),
    [
        pytest.param(
            executor,
            name,
            marks=[pytest.mark.slow] if (executor, name) == ("ray", "baseline") else [],
        )
        for executor in EXECUTORS
        for name in LEARNERS
    ],
    indirect=["executor"],
)
def test_the_ledger_is_the_same(tmp_path, executor, references, name):
    """With Ray, the toy learner is tested every day, and the baseline, whose workers start JAX, in
    `make test-all`.
    """
    ledger = run(
        LEARNERS[name], toy.stream(), tmp_path, seed=1, executor=executor, checkpoint_seconds=0
    )
    assert ledger.path.read_bytes() == references(name)
    assert json.loads((tmp_path / "environment.jsonl").read_text())["executor"] == repr(executor)


@dataclass(frozen=True)
class Failing(toy.ToyLearner):
    """The third trial of the second task fails after the others while a file exists; every trial
    writes a line.
    """

    folder: str = ""

    def train(self, task, state, ctx):
        folder, plain = Path(self.folder), ctx.map

        def mapped(function, items):
            def trial(ctx, item):
                with open(folder / "trials", "a") as file:
                    file.write(f"{task.task_id} {item}\n")
                if task.task_id == "beta" and item == 2 and (folder / "fail").exists():
                    await_that(
                        lambda: (
                            len(
                                list(
                                    (folder / "run" / "checkpoints").glob(
                                        "*beta.progress/trial-00[01]"
                                    )
                                )
                            )
                            == 2
                        )
                    )
                    raise LearnerFault("the disk of the third trial burns")
                return function(ctx, item)

            return plain(trial, items)

        ctx.map = mapped
        return super().train(task, state, ctx)


def await_that(condition, seconds=60):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_finished_trials_are_kept_when_one_fails(tmp_path, executor):
    learner, ledgers = Failing(folder=str(tmp_path)), []
    for options in (None, executor):
        path = tmp_path / ("run" if options else "reference")
        if options:
            (tmp_path / "fail").touch()
            with pytest.raises(LearnerFault, match="the disk of the third trial burns") as raised:
                run(learner, toy.stream(), path, executor=options)
            assert type(raised.value) is LearnerFault
            (tmp_path / "fail").unlink()
        ledgers.append(run(learner, toy.stream(), path, executor=options).path.read_bytes())
        ran = (tmp_path / "trials").read_text().splitlines()
        (tmp_path / "trials").unlink()
    assert ledgers[0] == ledgers[1]
    assert sorted(line for line in ran if "beta" in line) == [
        "beta 0",
        "beta 1",
        "beta 2",
        "beta 2",
    ]


class Odd(Exception):
    """An error that is not one of the project's."""


def fails_or_goes_on(ctx, item):
    if item == 0:
        raise Odd("seven")
    for step in range(3000):
        time.sleep(0.01)
        ctx.progress(step, 3000)


def context(executor, workspace=None, progress=None):
    return Context(
        path=("test",), phase="train", executor=executor, workspace=workspace, progress=progress
    )


def test_an_error_ends_the_other_trials_and_is_raised_as_it_is(executor):
    begin = time.monotonic()
    with pytest.raises(Odd, match="^seven") as raised:
        context(executor).map(fails_or_goes_on, [0, 1, 2])
    assert type(raised.value) is Odd
    # of the 30 s that the others would take; mostly the start of Ray
    assert time.monotonic() - begin < 25
    if type(executor).__name__ == "RayTasks":
        assert "in fails_or_goes_on" in raised.value.__notes__[0]  # the worker's traceback


def numbered(ctx, item):
    ctx.charge(item)
    if item == 1:
        import warnings

        warnings.warn("one is odd", RunWarning, stacklevel=1)
    return {"trial": ctx.trial, "item": item}


def test_order_costs_and_warnings_are_kept(executor):
    ctx = context(executor)
    with pytest.warns(RunWarning, match="one is odd"):
        first = ctx.map(numbered, [5, 1, 3])
    second = ctx.map(numbered, [7])
    assert first + second == [{"trial": i, "item": item} for i, item in enumerate([5, 1, 3, 7])]
    assert ctx.meter.counts() == {"train": {"0": 5, "1": 1, "2": 3, "3": 7}}
    assert ctx.map(numbered, []) == []


class Heard(Silent):
    """Remembers the reports; requires that they come one at a time."""

    def __init__(self):
        self.trials, self.steps, self._busy = [], [], threading.Lock()

    def trial(self, trial, trials):
        assert self._busy.acquire(blocking=False)
        self.trials.append((trial, trials))
        self._busy.release()

    def step(self, step, steps):
        assert self._busy.acquire(blocking=False)
        self.steps.append((step, steps))
        self._busy.release()


def test_progress_tells_how_many_trials_are_done(executor):
    heard = Heard()
    ctx = context(executor, progress=heard)
    ctx.map(numbered, [2, 4])
    ctx.map(numbered, [6])
    assert {(0, 2), (1, 2), (2, 3)} <= set(heard.trials)
    assert [done for done, _ in heard.trials] == sorted(done for done, _ in heard.trials)


def test_steps_of_trials_that_run_together_add_up():
    heard, result = Heard(), []

    class Catching:
        def run(self, trials, progress):
            result.extend(trials)
            return [trial.run() for trial in trials]

    context(Catching()).map(numbered, [2, 4])
    together = SharedProgress(heard, result)
    first, two = map(together.of_trial, result)
    first.step(3, 10)
    two.step(1, 10)
    together.ended(result[0])
    two.step(2, 10)
    assert heard.steps == [(3, 10), (4, 20), (2, 10)]
    assert heard.trials == [(0, 2), (1, 2)]


def test_unknown_names_and_options_are_told():
    with pytest.raises(
        BadInput,
        match=r"'thread'.*'threads'.*inline, ray, threads",
    ):
        make_executor("thread", {})
    with pytest.raises(BadInput, match="--cpus_per_trial needs --executor=ray"):
        make_executor("threads", {"cpus_per_trial": 2})
    with pytest.raises(BadInput, match="workers=0"):
        make_executor("threads", {"workers": 0})
    with pytest.raises(BadInput, match="gpus_per_trial=-1"):
        make_executor("ray", {"gpus_per_trial": -1})


def test_without_ray_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(NevisStreamError, match=r"Ray.*'\.\[cluster\]'"):
        context(EXECUTORS["ray"]()).map(numbered, [1])


def test_threads_compile_each_program_once(tmp_path):
    """Counted by JAX itself: three trials at once want the same new programs at the same moment."""
    # no other test has compiled this one
    network = Network("mlp", (("hidden", (23,)),), resolution=8)
    learner = Baseline(FromRandom(), RandomSearch(3, SPACE), Recipe(network, 10, 5))
    run(LEARNERS["baseline"], toy.stream(), tmp_path / "warm")  # compiles JAX's own small helpers

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Baseline, "init", lambda self, ctx: {})  # which compiles them before
        with compiled_programs() as compiled:
            run(
                learner,
                toy.stream(),
                tmp_path / "run",
                executor=EXECUTORS["threads"](workers=3),
            )
    for program in ("initialise", "step", "probabilities"):
        assert sum(program in name for name in compiled) == 1, compiled


# -- Ray: what is lost comes back
# ----------------------------------------------------------------------------------------


def dies_once(ctx, item):
    saved = ctx.restore()
    if saved is None:
        ctx.charge(5)
        ctx.checkpoint(3, lambda: {"value": item})
        os.kill(os.getpid(), signal.SIGKILL)
    ctx.charge(2)
    return {"step": saved[0], "value": saved[1]["value"]}


def test_a_trial_whose_worker_dies_goes_on_from_its_position(tmp_path):
    ctx = context(built("ray"), EventWorkspace(tmp_path / "event", 0))
    assert ctx.map(dies_once, [7, 8]) == [{"step": 3, "value": 7}, {"step": 3, "value": 8}]
    assert ctx.meter.counts() == {"train": {"0": 7, "1": 7}}
    assert sorted(path.name for path in (tmp_path / "event").glob("[!.]*")) == [
        "trial-000",
        "trial-001",
    ]


def test_a_process_that_was_taken_for_lost_writes_nothing_more(tmp_path):
    workspace = EventWorkspace(tmp_path / "event", 0)
    elsewhere = pickle.loads(pickle.dumps(workspace.share()))
    assert elsewhere.is_due(4) and elsewhere.restore(4) is None
    elsewhere.save(4, 30, {"value": 1}, {"train": {"4": 5}})
    elsewhere.finish(4, {"value": 2}, {})
    assert workspace.load_finished(4) is None
    assert workspace.restore(4) == elsewhere.restore(4) == (30, {"value": 1}, {"train": {"4": 5}})
    EventWorkspace(tmp_path / "event", 0)  # the run was killed and started again
    assert not elsewhere.is_due(4) and elsewhere.restore(4) is None


def dies(ctx, item):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_trial_that_is_lost_again_and_again_is_told():
    built("ray")
    with pytest.raises(NevisStreamError, match="trial 0: its process or machine was lost 2 times"):
        context(EXECUTORS["ray"](max_retries=1)).map(dies, [0])


def test_a_trial_that_has_room_nowhere_is_told():
    built("ray")
    with pytest.raises(
        BadInput,
        match=r"1 CPU and 3 GPU, but no machine .*Lower --cpus_per_trial or --gpus_per_trial",
    ):
        context(EXECUTORS["ray"](gpus_per_trial=3)).map(numbered, [0])


@pytest.mark.parametrize(
    ("backend", "given", "machine", "reserved"),
    [
        ("gpu", None, 2, 1),
        ("gpu", 0, 2, 0),
        ("gpu", 0.5, 2, 0.5),
        ("cpu", None, 0, 0),
        ("cpu", None, 2, "this process sees none, so trials run on CPUs. --gpus_per_trial=1"),
        ("cpu", 0, 2, 0),
        ("gpu", None, 0, "a trial reserves 1 CPU and 1 GPU, but no machine"),
    ],
)
def test_a_trial_has_a_gpu_where_the_driver_sees_some(
    monkeypatch, backend, given, machine, reserved
):
    monkeypatch.delenv("XLA_PYTHON_CLIENT_PREALLOCATE", raising=False)
    monkeypatch.setattr("jax.default_backend", lambda: backend)
    machines = [{"Alive": True, "Resources": {"CPU": 2, "GPU": machine}}]
    cluster = SimpleNamespace(is_initialized=lambda: True, nodes=lambda: machines)
    monkeypatch.setitem(sys.modules, "ray", cluster)
    monkeypatch.setattr("nevis_stream.launch.executors.ray_tasks._available_before", set())
    ray = EXECUTORS["ray"](gpus_per_trial=given)
    assert os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] == "false"
    if isinstance(reserved, str):
        with (
            pytest.warns(RunWarning, match=reserved)
            if machine
            else pytest.raises(BadInput, match=reserved)
        ):
            ray._connect()
    else:
        ray._connect()  # warnings are errors here
        assert ray._count_gpus() == reserved


def reserved_gpus(ctx, item):
    import ray

    ctx.charge(1)
    return [ray.get_gpu_ids(), os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE")]


def test_each_trial_of_ray_has_a_gpu_of_its_own(monkeypatch):
    """Two GPUs, of which Ray is told and that nobody uses."""
    built("ray")
    import ray

    ray.shutdown()
    ray.init("local", num_cpus=2, num_gpus=2, include_dashboard=False, log_to_driver=False)
    try:
        monkeypatch.setattr("jax.default_backend", lambda: "gpu")
        monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        seen = context(EXECUTORS["ray"]()).map(reserved_gpus, range(4))
        assert all(gpus in ([0], [1]) and text == "false" for gpus, text in seen), seen
        monkeypatch.setattr("jax.default_backend", lambda: "cpu")
        with pytest.warns(RunWarning, match="the cluster has 2 GPU"):
            assert context(EXECUTORS["ray"]()).map(reserved_gpus, [0])[0][0] == []
    finally:
        ray.shutdown()


def test_a_cluster_of_one_machine_is_private(monkeypatch):
    private = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER")
    for name in private:
        monkeypatch.setenv(name, "")  # so that it is as before after the test
        monkeypatch.delenv(name)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(NevisStreamError, match="not installed"):
        context(EXECUTORS["ray"](ray_address="127.0.0.1:1")).map(numbered, [0])
    assert not {*private} & os.environ.keys()
    with pytest.raises(NevisStreamError, match="not installed"):
        context(EXECUTORS["ray"]()).map(numbered, [0])
    assert len(os.environ["RAY_AUTH_TOKEN"]) == 64
    assert os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] == "0"
    monkeypatch.delenv("RAY_AUTH_TOKEN")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", "mine")
    with pytest.raises(NevisStreamError, match="not installed"):
        context(EXECUTORS["ray"]()).map(numbered, [0])
    assert "RAY_AUTH_TOKEN" not in os.environ


def test_a_cluster_of_one_machine_listens_on_the_loopback_address_alone():
    built("ray")
    context(EXECUTORS["ray"]()).map(numbered, [0])
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    listening = [
        connection.laddr.ip
        for process in processes
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert listening and {ip.removeprefix("::ffff:") for ip in listening} <= {"127.0.0.1", "::1"}


def test_an_address_where_nobody_answers_is_told_at_once(monkeypatch):
    built("ray")
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    for address in ("127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:99999999"):
        with pytest.raises(
            NevisStreamError,
            match=f"--ray_address={address}: nothing answers there.*ray start --head",
        ):
            context(EXECUTORS["ray"](ray_address=address)).map(numbered, [0])


def test_a_stop_while_ray_starts_is_a_stop_as_any_other(tmp_path, small_stream):
    built("ray")
    words = [
        sys.executable,
        "-m",
        "launch.run",
        "--config=indep",
        f"--config.stream={small_stream}",
    ]
    words += ["--executor=ray", f"--run_dir={tmp_path}"]
    process = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    await_that(
        lambda: any(
            "gcs_server" in child.name() for child in psutil.Process(process.pid).children()
        )
    )
    process.terminate()
    _, output = process.communicate(timeout=60)
    assert process.returncode == 143, output
    assert "stopped by SIGTERM" in output


def test_room_that_is_gone_is_waited_for(monkeypatch):
    from nevis_stream.launch.executors import ray_tasks

    def machine(count):
        return [{"Alive": True, "Resources": {"CPU": count}}]

    monkeypatch.setattr(ray_tasks, "_available_before", set())
    for machines, expected in (
        (machine(1), "refused"),
        (machine(4), ""),
        ([], "waits"),
        (machine(1), "waits"),
    ):
        result = SimpleNamespace(
            is_initialized=lambda: True, nodes=lambda machines=machines: machines
        )
        monkeypatch.setitem(sys.modules, "ray", result)
        connect = ray_tasks.RayTasks(cpus_per_trial=3)._connect
        if expected == "refused":
            with pytest.raises(
                BadInput,
                match="but no machine of the cluster has that many .1 CPU, 0 GPU.. Lower --cpus",
            ):
                connect()
        elif expected == "waits":
            with pytest.warns(
                RunWarning, match="Ray: a trial reserves 3 CPU .* A machine had that many before"
            ):
                connect()
        else:
            connect()  # warnings are errors here


@pytest.fixture
def cluster():
    """Two nodes on this machine, which are independent of Ray in this process."""
    built("ray")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    second = nodes.add_node(num_cpus=2)
    yield nodes, second
    nodes.shutdown()


def drive(run_dir, executor, **options):
    words = [
        sys.executable,
        "-m",
        "tests.kill_target",
        str(run_dir),
        "slow",
        "0",
        executor,
        json.dumps(options),
    ]
    return subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )


def positions(run_dir, task):
    return list((run_dir / "checkpoints").glob(f"*{task}.progress/trial-*.step-*"))


def working(node):
    """Processes of a node that run a trial now."""
    raylet = next(info.process.pid for info in node.all_processes["raylet"])
    return [
        child
        for child in psutil.Process(raylet).children()
        if "_run_trial" in " ".join(child.cmdline())
    ]


@pytest.mark.slow
def test_workers_nodes_and_the_driver_may_be_killed(tmp_path, cluster):
    """In one run: a worker's process is killed, then the driver, then (started again) a whole node
    is lost.
    """
    nodes, second = cluster
    reference = drive(tmp_path / "reference", "threads", workers=3)
    driver = drive(tmp_path / "run", "ray", ray_address=nodes.address)
    await_that(lambda: positions(tmp_path / "run", "alpha") and working(second))
    working(second)[0].kill()
    await_that(lambda: positions(tmp_path / "run", "beta"))
    driver.kill()
    driver.communicate()
    driver = drive(tmp_path / "run", "ray", ray_address=nodes.address)
    await_that(lambda: positions(tmp_path / "run", "gamma"))
    nodes.remove_node(second, allow_graceful=False)
    _, output = driver.communicate(timeout=120)
    assert driver.returncode == 0, output
    assert reference.wait(60) == 0
    ledgers = [(tmp_path / name / "ledger.jsonl").read_bytes() for name in ("reference", "run")]
    assert ledgers[0] == ledgers[1]
    assert len((tmp_path / "run" / "environment.jsonl").read_text().splitlines()) == 2
    assert not list((tmp_path / "run" / "checkpoints").glob("*.progress"))
