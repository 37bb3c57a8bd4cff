"""What asking and telling cost over a large board.

  python -m benchmarks.session_scale --out=runs/session_scale [--models=1000] [--samples=100000]
    [--method=default] [--budget=256]

Makes a synthetic board, starts a session, and answers it 20 samples at a time in one process; then
asks, tells and shows another one by commands, each of them twice. CPU seconds, the less of two for
commands, also scaled to a machine of 365 GFLOP/s in matrix products; and the largest memory of the
process and of the commands. `default` is the method that is chosen for the board; its stages go to
the standard error. A session that was started under `--out` before is used again, and its start not
measured.
"""

import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.dynamic_evaluation.session import Session
from nevis_stream.dynamic_evaluation.session_records import ANSWERS, ROUNDS
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.boards import read_board
from nevis_stream.experiments import engine
from nevis_stream.experiments.scripts import describe, measure_peak
from nevis_stream.progress import Silent

_ROWS = 50  # models that are made together
# runs a command from a small process, as a fork counts the memory of the one that it comes from
_WATCH = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1e6, file=sys.stderr)
"""
REFERENCE_PEAK = 365e9  # FLOPs per second of two cores


def make_board(directory: Path, models: int, samples: int) -> EvaluationCache:
    """Makes a cache of outcomes of models of different ability, unless it is there."""
    cache = EvaluationCache(directory, create=True, about={"synthetic": True})
    random, difficulty = np.random.default_rng(0), np.random.default_rng(1).normal(size=samples)
    cache.add_samples([f"s{column}" for column in range(samples)], [None] * samples)
    for first in range(cache.shape[0], models, _ROWS):
        names = [f"m{row}" for row in range(first, min(first + _ROWS, models))]
        ability = random.normal(size=(len(names), 1))
        noise = 0.5 * random.standard_normal((len(names), samples), np.float32)
        cache.append_rows(
            names, np.arange(samples), (ability + noise > difficulty).astype(np.uint8)
        )
    return cache


def _memory() -> float:
    """Returns the largest memory of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


class Told(Silent):
    """Prints when a stage begins."""

    def stage(self, name: str, done: int = 0, total: int | None = None) -> None:
        """As `Progress.stage`."""
        spent = f"{time.process_time():8.1f} CPU s {_memory():5.2f} GB"
        print(f"{spent}  {name}", file=sys.stderr, flush=True)


def show(name: str, seconds: float) -> None:
    """Prints a line of the table, scaled by what matrix products of the machine take just now."""
    share = 2 * measure_peak() / REFERENCE_PEAK
    engine.print_row([name, f"{seconds:.2f}", f"{seconds * share:.2f}"])


def print_time(name: str, work: Callable[[], Any]) -> Any:
    """Prints the CPU seconds of a piece of work and returns its result."""
    before = time.process_time()
    result = work()
    show(name, time.process_time() - before)
    return result


def answer(session: Session) -> None:
    """Answers a session, and prints what asking and telling cost."""
    asks: list[float] = []
    tells: list[float] = []
    while not session.ended:
        ids: list[Any] = []
        asks += engine.time_calls(lambda: ids.extend(session.ask(20)), 1)  # noqa: B023
        answers = {each: int(str(each)[1:]) % 2 for each in ids}
        tells += engine.time_calls(lambda: session.tell(answers), 1)  # noqa: B023
    show("ask, first", asks[0])
    show(f"ask, longest of {len(asks) - 1} others", max(asks[1:], default=0))
    show(f"tell, longest of {len(tells)}", max(tells))


def measure_command(name: str, *words: object, undo: Callable[[], Any] = list) -> str:
    """Prints what a command costs in a process of its own, the less of two, and its memory, and
    returns what it prints; `undo` is called between them.
    """
    measured, printed = [], ""
    for again in (False, True):
        if again:
            undo()
        command = [sys.executable, "-m", "launch.evaluate", *map(str, words)]
        found = subprocess.run(
            [sys.executable, "-c", _WATCH, *command], capture_output=True, text=True, check=True
        )
        measured.append(tuple(map(float, found.stderr.splitlines()[-1].split())))
        printed = found.stdout
    seconds, memory = min(measured)
    show(f"command {name}: {memory:.2f} GB", seconds)
    return printed


def measure_commands(directory: Path) -> None:
    """Prints what the commands of a session without answers cost."""
    answers, rounds = directory.parent / "answers.csv", directory / ROUNDS

    def ask(name: str) -> None:
        before = rounds.read_bytes() if rounds.exists() else b""
        ids = measure_command(name, "ask", directory, undo=lambda: rounds.write_bytes(before))
        lines = "".join(f"{each},1\n" for each in ids.split())
        answers.write_text(f"sample,value\n{lines}")

    ask("ask, first")
    measure_command("tell", "tell", directory, answers, undo=(directory / ANSWERS).unlink)
    ask("ask, next")
    measure_command("status", "status", directory)


def main(
    out: Path,
    models: int = 1000,
    samples: int = 100_000,
    budget: int = 256,
    method: str = "default",
) -> None:
    """Measures one board."""
    print(f"{describe()}\n\n{models:,} models × {samples:,} samples,", end=" ")
    print(f"{method}, budget {budget}; n = 1\n")
    engine.print_table("work | CPU s: | scaled:", ())
    board = read_board(make_board(out / "board", models, samples))
    started, used, commands = (out / each for each in ("started", "session", "commands"))
    for directory in (used, commands):
        shutil.rmtree(directory, ignore_errors=True)
    if started.exists():
        shutil.copytree(started, used)
        session = Session(used)
        print_time("opening", lambda: session.fitted)
    else:
        named = None if method == "default" else method
        arguments = {"method": named, "progress": Told()}
        session = print_time("start", lambda: Session.start(used, board, budget, **arguments))
        engine.print_row(["start, GB", f"{_memory():.2f}", ""])
        shutil.copytree(used, started)
    shutil.copytree(started, commands)
    answer(session)
    print_time("estimate", session.estimate)
    most = _memory()
    measure_commands(commands)
    measure_command("status, at the end", "status", used)
    print(
        f"\nAt most {most:.2f} GB in the process that answered. Method"
        f" {session.settings.method}: {session.settings.reason or 'as given'}."
    )


if __name__ == "__main__":
    engine.start(main)
