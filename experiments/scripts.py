"""What studies and benchmarks share: their own command lines, the commands that they run, and how
they describe the machine and measure its peak rate of matrix products.
"""

import argparse
import datetime
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from nevis_stream.errors import plural
from nevis_stream.experiments import engine
from nevis_stream.launch.owned_program import end_with_parent
from nevis_stream.run_directory.environment import describe_environment


def describe() -> str:
    """Returns one line: date, processor, cores, Python and JAX versions, backend, devices."""
    facts = describe_environment()
    packages = facts["packages"]
    backend = jax.default_backend()
    if backend != "cpu":
        backend += f" ({', '.join(facts['devices'])}; driver {_driver()})"
    return (
        f"{datetime.date.today()}, {facts['processor']}, {plural(facts['cores'], 'core')}, Python"
        f" {facts['python']}, jax {packages['jax']}, backend {backend}, load"
        f" {os.getloadavg()[0]:.1f}"
    )


def _driver() -> str:
    """Returns the version of the GPU's driver, or "unknown"."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return printed.split("\n")[0] or "unknown"


def choose_clock() -> tuple[Callable[[], float], str]:
    """Returns the clock for timing, and its unit: CPU seconds on a CPU, else seconds."""
    on_cpu = jax.default_backend() == "cpu"
    return (time.process_time, "CPU-s") if on_cpu else (time.perf_counter, "s")


def measure_peak(side: int | None = None, repeats: int = 5, dtype: str = "float32") -> float:
    """Returns FLOPs per CPU second of a matrix product, best of `repeats`.

    Not on a CPU: FLOPs per second, see `choose_clock`.

    Args:
      side: of the matrices; None: 2048 on a CPU, 8192 elsewhere, where smaller ones do not fill the
        machine.
      repeats: rounds.
      dtype: of the matrices; float32 is multiplied as `jax_default_matmul_precision` says (on a
        GPU by default perhaps as TF32).
    """
    now, unit = choose_clock()
    side = side or (2048 if unit == "CPU-s" else 8192)
    product = jax.jit(jnp.matmul)
    # numbers, not ones: a GPU multiplies constant matrices at a higher clock rate
    a = jax.random.normal(jax.random.key(0), (side, side), dtype)
    product(a, a).block_until_ready()
    products = 1 if unit == "CPU-s" else 10  # started together, so that starting one takes no time
    work = lambda: jax.block_until_ready([product(a, a) for _ in range(products)])  # noqa: E731
    return 2 * side**3 * products / min(engine.time_calls(work, repeats, now))


def make_parser(doc: str | None) -> argparse.ArgumentParser:
    """Returns the parser of a script, whose help begins with its docstring, as it is written."""
    return argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def parse_positive(text: str) -> int:
    """Returns the whole number from 1 that a flag's text is.

    Raises:
      argparse.ArgumentTypeError: the text is none.
    """
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1")
    return int(text)


def call(command: Sequence[object], pause: Path | None = None, **options: Any) -> tuple[float, int]:
    """Runs a command, and prints nothing of it but its messages on stderr.

    Args:
      command: its words.
      pause: a file; while it exists, the command is stopped.
      options: of subprocess.Popen.

    Returns:
      CPU seconds, and the peak of its memory in bytes.

    Raises:
      SystemExit: the command failed; its own message stands above.
    """
    words = [str(word) for word in command]
    given = {"stdout": subprocess.DEVNULL, "preexec_fn": end_with_parent, **options}
    process, stopped = subprocess.Popen(words, **given), False
    try:
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG if pause else 0)
            if pid:
                break
            if pause and pause.exists() != stopped:
                stopped = not stopped
                process.send_signal(signal.SIGSTOP if stopped else signal.SIGCONT)
            time.sleep(0.5)
    except BaseException:  # a run saves its position and ends
        process.terminate()
        process.send_signal(signal.SIGCONT)
        raise
    if code := os.waitstatus_to_exitcode(status):
        sys.exit(f"failed with status {code}: {shlex.join(words)}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
