"""What asking and telling cost over a large board.

  python -m benchmarks.session_scale --out=runs/session_scale [--models=1000] [--samples=100000]
    [--method=default] [--budget=256]

Makes a synthetic board, starts a session, and answers it 20 samples at a time in one process; then
asks, tells and shows another one by commands. CPU seconds, and the largest memory of the
process that started it, by then, and of the commands. `default` is the method that is chosen for
the board; its stages go to the standard error.
"""

import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from nevis_stream.dynamic_evaluation.board import read_board
from nevis_stream.dynamic_evaluation.session import Session
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.experiments.commands import make_parser, positive
from nevis_stream.experiments.machine import describe
from nevis_stream.launch import entry

_ROWS = 50  # models that are made together


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


def _memory(who: int) -> float:
    """Returns the largest memory of this process, or of its children, so far, in GB."""
    return resource.getrusage(who).ru_maxrss / 1e6


def show_stage(name: str) -> None:
    """Prints when a stage begins."""
    memory = _memory(resource.RUSAGE_SELF)
    print(f"{time.process_time():8.1f} CPU s {memory:5.2f} GB  {name}", file=sys.stderr, flush=True)


def timed(name: str, work):
    """Prints the CPU seconds of a piece of work and returns its result."""
    before = time.process_time()
    result = work()
    print(f"| {name} | {time.process_time() - before:.2f} |", flush=True)
    return result


def answer(session: Session) -> None:
    """Answers a session, and prints what asking and telling cost."""
    asks: list[float] = []
    tells: list[float] = []
    while not session.ended:
        start = time.process_time()
        ids = session.ask(20)
        asks.append(time.process_time() - start)
        start = time.process_time()
        session.tell({each: int(str(each)[1:]) % 2 for each in ids})
        tells.append(time.process_time() - start)
    print(f"| ask, first | {asks[0]:.2f} |\n| ask, longest of {len(asks) - 1} others |", end="")
    print(
        f" {max(asks[1:], default=0):.2f} |\n| tell, longest of {len(tells)} | {max(tells):.2f} |"
    )


def measure_commands(directory: Path) -> None:
    """Prints what the commands cost in processes of their own."""
    answers = directory.parent / "answers.csv"

    def run(*words: object) -> str:
        command = [sys.executable, "-m", "launch.evaluate", *map(str, words)]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        printed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"| command {words[0]} | {spent:.2f} |", flush=True)
        return printed

    ids = run("ask", directory, "--count=20").split()
    answers.write_text("sample,value\n" + "".join(f"{each},1\n" for each in ids))
    run("tell", directory, answers)
    run("status", directory)


def main() -> None:
    """Measures one board."""
    parser = make_parser(__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--models", type=positive, default=1000)
    parser.add_argument("--samples", type=positive, default=100_000)
    parser.add_argument("--budget", type=positive, default=256)
    parser.add_argument("--method", default="default")
    values = parser.parse_args()
    entry.use_compilation_cache()
    print(f"{describe()}\n\n{values.models:,} models × {values.samples:,} samples,", end=" ")
    print(f"{values.method}, budget {values.budget}; n = 1\n\n| work | CPU s |\n|---|---:|")
    board = read_board(make_board(values.out / "board", values.models, values.samples))
    shutil.rmtree(values.out / "session", ignore_errors=True)
    shutil.rmtree(values.out / "commands", ignore_errors=True)

    def start(name: str) -> Session:
        method = None if values.method == "default" else values.method
        return Session.start(
            values.out / name, board, values.budget, method=method, progress=show_stage
        )

    session = timed("start", lambda: start("session"))
    print(f"| start, GB | {_memory(resource.RUSAGE_SELF):.2f} |", flush=True)
    shutil.copytree(session.directory, values.out / "commands")
    answer(session)
    timed("estimate", session.estimate)
    most = _memory(resource.RUSAGE_SELF)
    measure_commands(values.out / "commands")
    print(
        f"\nAt most {most:.2f} GB in the process that started and answered, and"
        f" {_memory(resource.RUSAGE_CHILDREN):.2f} GB in a command. Method"
        f" {session.settings.method}: {session.settings.reason or 'as given'}."
    )


if __name__ == "__main__":
    entry.guard(main)
