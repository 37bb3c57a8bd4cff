"""Runs trials as tasks of Ray, in other processes of this machine or on the machines of a cluster.

A trial whose process or machine is lost is run again. Results are sent to this process, which alone
writes them. Workers that can reach the run directory save positions inside trials
(storage.checkpoint.SharedPositions), from which a trial that is run again continues.
"""

import os
import secrets
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from nevis_stream import user_code
from nevis_stream.errors import (
    BadInput,
    DataWarning,
    NevisStreamError,
    RunWarning,
    describe_installation,
)
from nevis_stream.executor import Result, Trial
from nevis_stream.launch import entry
from nevis_stream.launch.executors.threads import SharedProgress
from nevis_stream.run_directory.environment import count_cores

# environment variables that change what a worker finds or computes
_PASSED_ON = ("NEVIS_STREAM_", "JAX_", "XLA_")
# (CPUs, GPUs) that a trial reserved and some machine had
_available_before: set[tuple[float, float]] = set()
# in a worker: Ray's name of the function of its last map, and the function
_function: tuple[str, Any] = ("", None)


@dataclass(frozen=True)
class RayTasks:
    """Runs each trial as a task of Ray.

    Attributes:
      cpus_per_trial: cores that a trial reserves.
      gpus_per_trial: GPUs that a trial reserves and sees; None: one where this process sees GPUs,
        else none.
      ray_address: address of a running cluster; None starts one on this machine, which ends with
        this process.
      max_retries: how often a trial is run again after its process or machine was lost.
    """

    cpus_per_trial: float = 1
    gpus_per_trial: float | None = None
    ray_address: str | None = None
    max_retries: int = 5

    def __post_init__(self):
        # of this process, which uses a GPU of the workers: JAX would take most of its memory. It
        # reads this when it starts
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        for name in ("cpus_per_trial", "gpus_per_trial", "max_retries"):
            if (getattr(self, name) or 0) < 0:
                raise BadInput(
                    f"executor 'ray': {name}={getattr(self, name)}; it must be 0 or more."
                )

    def run(self, trials: Sequence[Trial], progress: Any) -> list[Result]:
        """Runs the trials and returns their results in order.

        Each result is kept as soon as it arrives; the first exception of a trial ends the others.
        """
        together = SharedProgress(progress, trials)
        results = {trial.number: trial.finished() for trial in trials}
        missing = [trial for trial in trials if results[trial.number] is None]
        for trial in trials:
            if results[trial.number] is not None:
                together.ended(trial)
        if missing:
            self._connect()
            for trial, result in self._run_remotely(missing):
                results[trial.number] = trial.finish(result)
                together.ended(trial)
        return [results[trial.number] for trial in trials]

    def _run_remotely(self, trials: Sequence[Trial]) -> Iterator[tuple[Trial, Result]]:
        """Sends trials and yields each with its result as it ends."""
        import ray

        task = ray.remote(_run_trial).options(
            num_cpus=self.cpus_per_trial,
            num_gpus=self._count_gpus(),
            max_retries=self.max_retries,
            runtime_env={
                "env_vars": {
                    name: value for name, value in os.environ.items() if name.startswith(_PASSED_ON)
                }
            },
        )
        function = ray.put(trials[0].function)
        folders = [os.path.abspath(folder) for folder in sys.path]
        places = user_code.list_places()
        waiting = {
            task.remote([function], trial.to_send(), folders, places): trial for trial in trials
        }
        try:
            while waiting:
                (done,), _ = ray.wait(list(waiting), num_returns=1)
                yield waiting[done], self._receive(done, waiting[done])
                del waiting[done]
        finally:
            for reference in waiting:
                ray.cancel(reference, force=True)

    def _receive(self, done: Any, trial: Trial) -> Result:
        import ray

        try:
            result, worker_warnings = ray.get(done)
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, NevisStreamError):
                raise error.cause from None
            if isinstance(error.cause, Exception):
                error.cause.add_note(f"In the worker:\n{error}")
                raise error.cause from None
            raise
        except ray.exceptions.RayError as error:
            raise NevisStreamError(
                f"trial {trial.number}: its process or machine was lost {self.max_retries + 1}"
                f" times ({str(error).strip().splitlines()[0]}). Perhaps it ran out of memory."
                " Finished trials are kept: start the same command again to continue."
            ) from error
        for category, message in worker_warnings:
            warnings.warn(message, category, stacklevel=2)
        return result

    def _count_gpus(self) -> float:
        """Returns the number of GPUs that a trial reserves."""
        if self.gpus_per_trial is not None:
            return self.gpus_per_trial
        import jax

        return float(jax.default_backend() == "gpu")

    def _connect(self) -> None:
        """Connects to the cluster or starts one, and checks that some machine can run a trial.

        If no machine can any more, the trial waits: machines of a cluster come and go.
        """
        if self.ray_address is None:
            _stay_private()
        try:
            import ray
        except ImportError:
            raise NevisStreamError(
                "Ray, which --executor=ray needs, is not installed:"
                f" {describe_installation('cluster')}."
            ) from None
        if not ray.is_initialized():
            self._check_address()
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            # the first error of a trial is raised; it would print those of the others
            os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
            local_options = (
                {"include_dashboard": False, "num_cpus": count_cores()}
                if self.ray_address is None
                else {}
            )
            with _own_signal_handlers(), warnings.catch_warnings():
                # harmless: Ray's child processes become other programs at once
                warnings.filterwarnings("ignore", r"os\.fork\(\) was called")
                try:
                    ray.init(
                        self.ray_address or "local",
                        log_to_driver=False,
                        logging_level="ERROR",
                        **local_options,
                    )
                except (ConnectionError, RuntimeError, ValueError) as error:
                    raise self._no_cluster(f"{str(error).rstrip('.')}.") from error
        wanted = {"CPU": self.cpus_per_trial, "GPU": self._count_gpus()}
        machines = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        unused = sum(machine.get("GPU", 0) for machine in machines)
        if self.gpus_per_trial is None and not wanted["GPU"] and unused:
            warnings.warn(
                f"Ray: the cluster has {unused:g} GPU, but this process sees none, so trials run on"
                " CPUs. --gpus_per_trial=1 gives each a GPU; 0 says that none is wanted.",
                RunWarning,
                stacklevel=2,
            )
        if any(
            all(machine.get(name, 0) >= count for name, count in wanted.items())
            for machine in machines
        ):
            _available_before.add(tuple(wanted.values()))
            return
        present = "; ".join(
            f"{machine.get('CPU', 0):g} CPU, {machine.get('GPU', 0):g} GPU" for machine in machines
        )
        problem = (
            f"a trial reserves {wanted['CPU']:g} CPU and {wanted['GPU']:g} GPU, but no machine of"
            f" the cluster has that many ({present or 'it has no machine'})."
        )
        if tuple(wanted.values()) not in _available_before:
            raise BadInput(f"{problem} Lower --cpus_per_trial or --gpus_per_trial.")
        warnings.warn(
            f"Ray: {problem} A machine had that many before, so the trial waits for one.",
            RunWarning,
            stacklevel=2,
        )

    def _check_address(self) -> None:
        """Checks that something listens at the cluster's address; Ray would try for minutes."""
        host, colon, port = (self.ray_address or "").removeprefix("ray://").rpartition(":")
        if colon and port.isdecimal():
            try:
                socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
            except (OSError, OverflowError) as error:
                raise self._no_cluster(f"nothing answers there ({error}).") from None

    def _no_cluster(self, reason: object) -> NevisStreamError:
        problem = (
            f"--ray_address={self.ray_address}"
            if self.ray_address
            else "no cluster could be started on this machine"
        )
        return NevisStreamError(
            f"Ray: {problem}: {reason} To start a cluster: `ray start --head`, which prints its"
            " address."
        )


def _run_trial(
    function: Sequence[Any],
    trial: Trial,
    folders: Sequence[str],
    places: tuple[Sequence[str], Sequence[str]],
) -> tuple[Result, list[tuple[type, str]]]:
    """Runs a trial in a worker; returns its result and its warnings.

    Args:
      function: Ray's reference to the trial's function, in a list so that Ray does not fetch it
        for every trial of a map.
      trial: the trial, without its function.
      folders: the driver's sys.path.
      places: where the driver finds the user's own code (`user_code.list_places`).
    """
    user_code.look_in(*places)
    sys.path += [folder for folder in folders if folder not in sys.path]
    entry.use_compilation_cache()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = replace(trial, function=_fetch(function[0])).run()
    ours = [warning for warning in caught if issubclass(warning.category, RunWarning | DataWarning)]
    return result, [(warning.category, str(warning.message)) for warning in ours]


def _fetch(reference: Any) -> Any:
    """Returns the function, as one object for all trials of a map: its programs compile once."""
    import ray

    global _function
    if _function[0] != reference.hex():
        _function = (reference.hex(), ray.get(reference))
    return _function[1]


def _stay_private() -> None:
    """Keeps other users and machines out of a cluster on this machine alone: its processes listen
    on the loopback address, and its token is in their environment; Ray would write one that
    everybody can read. Both are read when Ray is imported and started.
    """
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # the loopback address
    if not {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys():
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)


@contextmanager
def _own_signal_handlers() -> Iterator[None]:
    """Restores our signal handlers after Ray has replaced them.

    If Ray's handler ends the process before that, ours is called.
    """
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    except SystemExit as exit_request:
        if exit_request.code == signal.SIGTERM and callable(handlers[signal.SIGTERM]):
            handlers[signal.SIGTERM](signal.SIGTERM, None)
        raise
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in handlers.items():
                signal.signal(number, handler)
