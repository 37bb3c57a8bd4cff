"""Runs a learner on the toy stream in a process that can kill itself at the n-th operation on
files.

python -m tests.kill_target RUN_DIR LEARNER[@STREAM] [N [EXECUTOR [OPTIONS]]]

"@adaptive" takes the stream whose next task depends on the last error, "@multi_label" the one of
multi-label tasks, another STREAM the one of that name. EXECUTOR is a name of
launch.executors, OPTIONS are its own, as JSON. With an N that is not 0, the process counts writes,
syncs, renames and removals, and sends itself SIGKILL at the N-th: a write is half done then, the
others are not begun. It prints how many there were if it lives.
"""

import builtins
import json
import os
import shutil
import signal
import sys
import threading
from pathlib import Path

from tests import toy
from tests.streams.result_stream import result_stream

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


def learner(name: str, weights_file: Path):
    """The toy learner, the same slowed down, one of the paper's with a small MLP (real JAX training
    that takes a moment), or another of the table as it is.

    "+ensemble", "+halving" or "+frozen" may follow its name, and "+network" that of frontier.
    Those that start from weights find some in `weights_file`.
    """
    if name in ("toy", "slow"):
        return toy.ToyLearner(seconds=0.25 * (name == "slow"))
    import jax

    from nevis_stream.configs import run_config
    from nevis_stream.launch import entry

    entry.use_compilation_cache()
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    base, _, variant = name.partition("+")
    config = run_config.make_default(base)
    if variant == "network":
        config.update(network_steps=20, network_above=0.0)
    if "network" not in config:
        return run_config.resolve(config).build()
    config.network.update(name="mlp", hidden=(16,), resolution=8)
    config.train.update(steps=60, validate_every=10, frozen=variant == "frozen")
    config.ensemble = 2 if variant == "ensemble" else 1
    if variant == "halving":
        config.search.update(pruning="halving", trials=4)
    if base == "bhpo":
        config.search.update(method="bayesian", trials=5, space="large", batch=(8, 16))
        config.other_network.update(name="mlp", hidden=(8,))
    if base.startswith("pt_"):
        _write_weights(weights_file)
        config.pretrained.path = str(weights_file)
    return run_config.resolve(config).build()


def _write_weights(file: Path) -> None:
    import numpy as np

    from nevis_stream.learners.parts import weights
    from nevis_stream.learners.parts.model import Network, initialise_program
    from nevis_stream.storage import write_file

    network = Network("mlp", (("hidden", (16,)),), 8)
    drawn = initialise_program(network, 64)(np.arange(4, dtype=np.uint32))
    write_file(
        file,
        weights.encode(drawn, weights.Facts(weights.describe_network(network), "nothing", 1000)),
    )


def main() -> None:
    """Runs; see the module."""
    from nevis_stream.launch.executors import EXECUTORS
    from nevis_stream.runner import run
    from nevis_stream.streams.named_streams import load_stream

    run_dir, name, fatal, executor, options = (
        *sys.argv[1:],
        *("0", "inline", "{}")[len(sys.argv) - 3 :],
    )
    # a path for all runs of a test: configs record it
    weights = Path(run_dir).resolve().parents[1] / "weights.safetensors"
    name, _, stream_name = name.partition("@")
    target, how = learner(name, weights), EXECUTORS[executor](**json.loads(options))
    streams = {"": toy.stream, "adaptive": result_stream, "multi_label": toy.multi_label_stream}
    stream = streams.get(stream_name, lambda: load_stream(stream_name))()
    arm(int(fatal))
    print("ready", flush=True)
    run(target, stream, run_dir, seed=3, keep="all", checkpoint_seconds=0, executor=how)
    print(operations, flush=True)


if __name__ == "__main__":
    main()
