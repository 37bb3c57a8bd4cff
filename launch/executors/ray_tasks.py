"""Trials as tasks of Ray: other processes of this machine, or of a cluster's machines; lost ones
are run again.

Results come back to this process, which alone keeps them. Workers save positions inside trials
where they see the run directory (run_directory.workspace.SharedPositions), so that a task
that is run again goes on from there.
"""

import os
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from launch import entry
from launch.side_by_side import SideBySide
from nevis_stream.errors import BadInput, DataWarning, NevisStreamError, RunWarning
from nevis_stream.executor import Result, Trial
from nevis_stream.run_directory.environment import cores

# variables of the environment that change what a worker finds or computes
_HANDED_ON = ("NEVIS_STREAM_", "JAX_", "XLA_")
# of CPUs and GPUs: what a trial asked for, and a machine had
_had_room: set[tuple[float, float]] = set()
# of a worker: the function of its last map, and the name under which Ray has it
_function: tuple[str, Any] = ("", None)


@dataclass(frozen=True)
class RayTasks:
    """Runs each trial as a task of Ray.

    Attributes:
      cpus_per_trial: cores that a trial reserves.
      gpus_per_trial: GPUs that a trial reserves and sees.
      ray_address: of a cluster that runs; None: one is started on this machine, and ends with this
        process.
      max_retries: how often a trial is run again whose process or machine was lost.
    """

    cpus_per_trial: float = 1
    gpus_per_trial: float = 0
    ray_address: str | None = None
    max_retries: int = 5

    def __post_init__(self):
        for name in ("cpus_per_trial", "gpus_per_trial", "max_retries"):
            if getattr(self, name) < 0:
                raise BadInput(
                    f"executor 'ray': {name}={getattr(self, name)}; it must be 0 or more."
                )

    def run(self, trials: Sequence[Trial], progress: Any) -> list[Result]:
        """Runs them; results are kept as they come, and the first exception of a trial ends the
        others.
        """
        together = SideBySide(progress, trials)
        results = {trial.number: trial.finished() for trial in trials}
        missing = [trial for trial in trials if results[trial.number] is None]
        for trial in trials:
            if results[trial.number] is not None:
                together.ended(trial)
        if missing:
            self._connect()
            for trial, result in self._finished(missing):
                results[trial.number] = trial.finish(result)
                together.ended(trial)
        return [results[trial.number] for trial in trials]

    def _finished(self, trials: Sequence[Trial]) -> Iterator[tuple[Trial, Result]]:
        """Sends trials and yields each with its result as it ends."""
        import ray

        task = ray.remote(_run_trial).options(
            num_cpus=self.cpus_per_trial,
            num_gpus=self.gpus_per_trial,
            max_retries=self.max_retries,
            runtime_env={
                "env_vars": {
                    name: value for name, value in os.environ.items() if name.startswith(_HANDED_ON)
                }
            },
        )
        function = ray.put(trials[0].function)
        folders = [os.path.abspath(folder) for folder in sys.path]
        waiting = {task.remote([function], trial.to_send(), folders): trial for trial in trials}
        try:
            while waiting:
                (done,), _ = ray.wait(list(waiting), num_returns=1)
                yield waiting[done], self._received(done, waiting[done])
                del waiting[done]
        finally:
            for task in waiting:
                ray.cancel(task, force=True)

    def _received(self, done: Any, trial: Trial) -> Result:
        import ray

        try:
            result, told = ray.get(done)
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, NevisStreamError):
                raise error.cause from None
            if isinstance(error.cause, Exception):
                error.cause.add_note(f"In the worker:\n{error}")
                raise error.cause from None
            raise
        except ray.exceptions.RayError as error:
            raise NevisStreamError(
                f"trial {trial.number} was lost {self.max_retries + 1} times with its process or"
                f" machine ({str(error).strip().splitlines()[0]}). Is its memory enough? Finished"
                " trials are kept: start the same command again."
            ) from error
        for category, message in told:
            warnings.warn(message, category, stacklevel=2)
        return result

    def _connect(self) -> None:
        """Connects to the cluster, or starts one here; then checks that a trial has room on one of
        its machines.

        Where that room is gone, it is waited for: machines come and go.
        """
        try:
            import ray
        except ImportError:
            raise NevisStreamError(
                "Ray is not installed, and --executor=ray runs trials with it: pip install ray "
                "(it is part of the extra `cluster`)."
            ) from None
        if not ray.is_initialized():
            self._reach()
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            here = (
                {"include_dashboard": False, "num_cpus": cores()}
                if self.ray_address is None
                else {}
            )
            with _own_signal_handlers(), warnings.catch_warnings():
                # its children become other programs at once
                warnings.filterwarnings("ignore", r"os\.fork\(\) was called")
                try:
                    ray.init(
                        self.ray_address or "local",
                        log_to_driver=False,
                        logging_level="ERROR",
                        **here,
                    )
                except (ConnectionError, RuntimeError, ValueError) as error:
                    raise self._no_cluster(error) from error
        wanted = {"CPU": self.cpus_per_trial, "GPU": self.gpus_per_trial}
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        if any(
            all(machine.get(name, 0) >= count for name, count in wanted.items())
            for machine in machines
        ):
            _had_room.add(tuple(wanted.values()))
            return
        there = "; ".join(
            f"{machine.get('CPU', 0):g} CPU, {machine.get('GPU', 0):g} GPU" for machine in machines
        )
        told = (
            f"a trial asks for {wanted['CPU']:g} CPU and {wanted['GPU']:g} GPU, which no machine"
            f" has (there: {there})."
        )
        if tuple(wanted.values()) not in _had_room:
            raise BadInput(f"{told} Lower --cpus_per_trial or --gpus_per_trial.")
        warnings.warn(f"Ray: {told} One had, so it is waited for.", RunWarning, stacklevel=2)

    def _reach(self) -> None:
        """Checks that somebody answers where the cluster should be: Ray would try for many
        minutes.
        """
        host, colon, port = (self.ray_address or "").removeprefix("ray://").rpartition(":")
        if colon and port.isdecimal():
            try:
                socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
            except (OSError, OverflowError) as error:
                raise self._no_cluster(f"nobody answers there ({error}).") from None

    def _no_cluster(self, why: object) -> NevisStreamError:
        where = (
            f"--ray_address={self.ray_address}"
            if self.ray_address
            else "no cluster could be started here"
        )
        return NevisStreamError(
            f"Ray: {where}: {why} A cluster is started with `ray start --head`, which prints its"
            " address."
        )


def _run_trial(
    function: Sequence[Any], trial: Trial, folders: Sequence[str]
) -> tuple[Result, list[tuple[type, str]]]:
    """Runs in a worker; returns the trial's result and what it warned of.

    Args:
      function: Ray's reference to the trial's function; in a list, so that it is fetched once for
        all trials of a map.
      trial: without its function.
      folders: where the driver finds modules: a user's learner may be in one of them.
    """
    sys.path += [folder for folder in folders if folder not in sys.path]
    entry.use_compilation_cache()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = replace(trial, function=_fetched(function[0])).run()
    ours = [warning for warning in caught if issubclass(warning.category, RunWarning | DataWarning)]
    return result, [(warning.category, str(warning.message)) for warning in ours]


def _fetched(reference: Any) -> Any:
    """Returns the function; the same object for all trials of a map, so that its programs are
    compiled once.
    """
    import ray

    global _function
    if _function[0] != reference.hex():
        _function = (reference.hex(), ray.get(reference))
    return _function[1]


@contextmanager
def _own_signal_handlers() -> Iterator[None]:
    """Ray replaces handlers of signals; this puts ours back, and calls ours where Ray's has ended
    the process before that.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    except SystemExit as ended:
        if ended.code == signal.SIGTERM and callable(before[signal.SIGTERM]):
            before[signal.SIGTERM](signal.SIGTERM, None)
        raise
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                signal.signal(number, handler)


NAME = "ray"
EXECUTOR = RayTasks
