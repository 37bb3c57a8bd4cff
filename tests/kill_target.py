"""Runs a learner on the toy stream in a process that can kill itself at the n-th operation on files.

python -m tests.kill_target RUN_DIR LEARNER [N [EXECUTOR [OPTIONS]]]

EXECUTOR is a name of launch.executors, OPTIONS are its own, as JSON. With an N that is not 0, the process counts writes,
syncs, renames and removals, and sends itself SIGKILL at the N-th: a write is half done then, the others are not begun. It
prints how many there were if it lives.
"""

import builtins
import json
import os
import shutil
import signal
import sys
import threading

from tests import toy

operations = 0
lock = threading.Lock()


def arm(fatal: int) -> None:
    """Counts the operations from here on and dies at number `fatal` (0: never)."""

    def counted(function, half=None):
        def call(*args, **kwargs):
            global operations
            with lock:
                operations += 1
                last = operations == fatal
            if last:
                if half:
                    half(*args)
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **kwargs)

        return call

    for name in ("fsync", "replace", "rename", "unlink", "rmdir"):
        setattr(os, name, counted(getattr(os, name)))
    shutil.rmtree = counted(shutil.rmtree)
    plain_open = builtins.open

    def opened(*args, **kwargs):
        file = plain_open(*args, **kwargs)
        if "r" not in file.mode or "+" in file.mode:
            return _Half(file, counted)
        return file

    builtins.open = opened


class _Half:
    """A file whose `write` dies half way."""

    def __init__(self, file, counted):
        self._file = file
        write = file.write

        def half(data):
            write(data[: len(data) // 2])
            file.flush()

        self.write = counted(write, half)

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __enter__(self):
        self._file.__enter__()
        return self

    def __exit__(self, *exception):
        return self._file.__exit__(*exception)


def learner(name: str):
    """The toy learner, the same slowed down, or FT-prev with a small MLP: real JAX training that takes a moment."""
    if name in ("toy", "slow"):
        return toy.ToyLearner(seconds=0.25 * (name == "slow"))
    from experiments import run_config

    config = run_config.default("ft_prev")
    config.network.update(name="mlp", hidden=(16,), resolution=8)
    config.train.update(steps=60, validate_every=10)
    return run_config.build(run_config.resolve(config))


def main() -> None:
    """Runs; see the module."""
    from launch import executors
    from nevis_stream.runner import run

    run_dir, name, fatal, executor, options = (*sys.argv[1:], *("0", "inline", "{}")[len(sys.argv) - 3 :])
    target, how = learner(name), executors.build(executor, json.loads(options))
    stream = toy.stream()
    arm(int(fatal))
    print("ready", flush=True)
    run(target, stream, run_dir, seed=3, keep="all", checkpoint_seconds=0, executor=how)
    print(operations, flush=True)


if __name__ == "__main__":
    main()
