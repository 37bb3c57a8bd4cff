"""Commands as a user starts them, in processes forked from one that has imported the libraries and
the project: real ones, seconds earlier.

Arguments, files, signals and statuses are those of a process of its own. Only that an entry point
imports everything that it needs is not seen here: each has a test that starts it `alone`.
"""

import atexit
import multiprocessing.util
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from pathlib import Path

_forks = multiprocessing.get_context("forkserver")
_LIBRARIES = (
    "absl.app flax.linen jax.numpy jaxlib.mlir.dialects.mhlo matplotlib.figure"
    " ml_collections.config_flags numpy optax pandas PIL.Image pytest rich.console rich.progress"
    " rich.table safetensors.numpy scipy.optimize scipy.stats sklearn.metrics tensorboardX.proto"
)
# With what these import, that is nearly all of the project; not the entry points, which define
# flags.
_PROJECT = (
    "configs.plan configs.pretraining configs.transfer launch.config_flag"
    " launch.data_commands.prepare launch.evaluate_commands.add launch.evaluate_commands.fill"
    " launch.evaluate_commands.sessions experiments.commands.study"
    " launch.label_commands.sessions experiments.commands.simulate launch.job launch.run_screen"
    " learners.closed_form.frontier learners.parts.baseline report.build"
)
_forks.set_forkserver_preload(
    _LIBRARIES.split()
    + [f"nevis_stream.{name}" for name in _PROJECT.split()]
    + ["tests.built_datasets"]  # of a stream: more than a second for each command
)
_started = weakref.WeakSet()


@atexit.register
def _leave_none_behind():
    """Of a test that failed: multiprocessing, whose own function comes behind this one, would wait
    for its end.
    """
    for command in list(_started):
        command.send_signal(signal.SIGKILL)


class Started:
    """A command at work, with a little of what subprocess.Popen has.

    Args:
      module, words: of `python -m MODULE WORDS`.
      env: its environment; default: that of the tests.
      cwd: its directory; default: that of the tests.
    """

    def __init__(self, module, *words, env=None, cwd=None):
        self._folder = tempfile.mkdtemp(prefix="forked-")
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        options = (
            [module, *map(str, words)],
            dict(env or os.environ),
            str(cwd or os.getcwd()),
            self._folder,
        )
        self._process = _forks.Process(target=_become, args=options)
        self._process.start()
        self.pid = self._process.pid
        _started.add(self)

    @property
    def stdout(self):
        return self._read("stdout")

    @property
    def stderr(self):
        return self._read("stderr")

    def _read(self, name):
        file = Path(self._folder) / name
        return file.read_text() if file.exists() else ""

    def poll(self):
        """Its status, None while it is at work."""
        return self._process.exitcode

    def wait(self, timeout=300):
        """Its status, when it has ended; it is killed if that takes too long."""
        self._process.join(timeout)
        if self.poll() is None:
            self._process.kill()
            raise subprocess.TimeoutExpired(self.pid, timeout, self.stdout, self.stderr)
        return self.poll()

    def wait_for(self, line, timeout=120):
        """Returns when it has printed this line."""
        until = time.monotonic() + timeout
        while line not in self.stdout.splitlines():
            assert self.poll() is None and time.monotonic() < until, self.stderr
            time.sleep(0.005)

    def send_signal(self, number):
        """Sends it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)


def run(module, *words, timeout=300, **options):
    """Runs a command to its end and returns its status and output, as subprocess.run does."""
    started = Started(module, *words, **options)
    return subprocess.CompletedProcess(
        [module, *words], started.wait(timeout), started.stdout, started.stderr
    )


def alone(module, *words, timeout=300, **options):
    """The same in a process of its own, which imports everything."""
    command = [sys.executable, "-m", module, *map(str, words)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, check=False, **options
    )


def _become(words, environment, directory, folder):
    for number, file in enumerate([os.devnull, f"{folder}/stdout", f"{folder}/stderr"]):
        os.dup2(os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND), number)
    # a shell's background jobs ignore it from the start
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    sys.argv[1:] = words[1:]
    try:
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    finally:
        atexit._run_exitfuncs()
