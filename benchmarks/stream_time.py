"""Where the time of a run goes, and how long the whole of it would take.

  python -m benchmarks.stream_time --seconds=360 --run_dir=DIR [flags of launch.run]

Runs `launch.run` for a number of seconds and stops it; the same command continues. It prints tasks
done, steps per second over all sittings, the hours of the whole stream with the budgets `cheap` and
`paper`, and the shares of the main thread's wall time in the last sitting, from a sample of its
stack every 10 ms. The hours are planned FLOPs of training over FLOPs per second of the steps done.
"""

import argparse
import json
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import FrameType

from nevis_stream.experiments.scripts import make_parser
from nevis_stream.launch import entry

INTERVAL = 0.01  # seconds
# The first entry that matches a frame of the stack, by file and function, names the work.
KINDS = (
    ("compilation", "compiler.py", "backend_compile"),
    ("writing", "nevis_stream/storage/", ""),
    ("writing", "run_directory/", ""),
    ("validation", "learners/parts/fit.py", "evaluate_on_dev"),
    ("selection", "learners/parts/relatedness.py", ""),
    ("input", "learners/parts/feed.py", ""),
    ("prediction", "learners/", "predict"),
    ("training", "learners/parts/fit.py", "advance"),
)


def classify_stack(frame: FrameType | None) -> str:
    """Returns the kind of work that a thread does, by its stack."""
    stack = []
    while frame:
        stack.append((frame.f_code.co_filename, frame.f_code.co_name))
        frame = frame.f_back
    for kind, file, function in KINDS:
        if any(file in path and name.startswith(function) for path, name in stack):
            return kind
    return "other (data, start, between trials)"


def sample(out: Path, seconds: float, words: list[str]) -> None:
    """Runs `launch.run` in this process, and writes its samples to `out` when the time is over."""
    from nevis_stream.learners.parts import fit

    steps, report = [0], fit.report

    def tally(carry, count):
        steps[0] += count
        return report(carry, count)

    fit.report = tally
    kinds, main_thread, begun = Counter(), threading.main_thread(), time.perf_counter()

    def write() -> None:
        sitting = {"seconds": time.perf_counter() - begun, "steps": steps[0], "kinds": kinds}
        out.write_text(json.dumps(sitting))

    def watch() -> None:
        while time.perf_counter() - begun < seconds:
            time.sleep(INTERVAL)
            kinds[classify_stack(sys._current_frames().get(main_thread.ident))] += 1
        write()
        os.kill(os.getpid(), signal.SIGTERM)  # as a machine stops a run

    threading.Thread(target=watch, daemon=True).start()
    sys.argv = ["launch.run", *words]
    try:
        runpy.run_module("launch.run", run_name="__main__", alter_sys=True)
    finally:  # complete before the time was over
        write()


def plan(words: list[str], budget: str | None = None) -> list[dict]:
    """Returns the plan's rows of the tasks, with another budget if one is named."""
    from nevis_stream.configs import plan, run_config
    from nevis_stream.launch.config_flag import split_words
    from nevis_stream.streams.named_streams import load_stream

    command = split_words(words)
    if budget is not None:  # with all that it sets
        stream = {key: value for key, value in command.values.items() if key == "stream"}
        command = replace(command, values=stream | {"budget": budget})
    config = command.config()
    return plan.plan(run_config.resolve(config), load_stream(config.stream))


def count_step_flops(rows: list[dict], steps: int) -> float:
    """Returns the FLOPs of the first `steps` training steps of a plan."""
    total = 0.0
    for row in rows:
        planned_steps = row["trials"] * row["steps"]
        total += row["flops"]["train"] * min(1, steps / planned_steps)
        steps -= planned_steps
        if steps <= 0:
            break
    return total


def show(run_dir: Path, sittings: list[dict], words: list[str]) -> None:
    """Prints the tables."""
    from nevis_stream.experiments.scripts import describe
    from nevis_stream.run_directory.ledger import Ledger

    rows = plan(words)
    seconds = sum(sitting["seconds"] for sitting in sittings)
    steps = sum(sitting["steps"] for sitting in sittings)
    done = sum(record.kind == "train" for record in Ledger(run_dir).events)
    rate = count_step_flops(rows, steps) / seconds
    print(
        f"{describe()}; {len(sittings)} sittings, {seconds:.0f} s: {done} of {len(rows)} tasks"
        f" done, {steps} steps, {steps / seconds:.1f} steps/s, {rate / 1e9:.4g} GFLOP/s.\n"
    )
    print("| budget | FLOPs of training | hours for all tasks of this stream |\n|---|---:|---:|")
    for budget in ("cheap", "paper"):
        flops = sum(row["flops"]["train"] for row in plan(words, budget))
        hours = f"{flops / rate / 3600:.4g}" if rate else "-"
        print(f"| {budget} | {flops:.4g} | {hours} |")
    kinds = sittings[-1]["kinds"]
    print(f"\n| work of the main thread | share of {sittings[-1]['seconds']:.0f} s |\n|---|---:|")
    for kind, count in sorted(kinds.items(), key=lambda item: -item[1]):
        print(f"| {kind} | {count / sum(kinds.values()):.1%} |")


def main() -> None:
    """Runs one sitting, and prints the tables."""
    parser = make_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=360)
    parser.add_argument("--run_dir", type=Path, required=True)
    parser.add_argument("--sample", type=Path, help=argparse.SUPPRESS)  # in a process of its own
    options, words = parser.parse_known_args()
    run_words = [*words, f"--run_dir={options.run_dir}"]
    if options.sample:
        sample(options.sample, options.seconds, run_words)
        return
    from nevis_stream.launch.config_flag import split_words

    split_words(words).config()  # what does not fit is refused before the run
    options.run_dir.parent.mkdir(parents=True, exist_ok=True)
    record = options.run_dir.with_suffix(".sittings.jsonl")
    out = options.run_dir.with_suffix(".sitting.json")
    out.unlink(missing_ok=True)
    command = [sys.executable, "-m", "benchmarks.stream_time", f"--sample={out}"]
    subprocess.run(
        [*command, f"--seconds={options.seconds}", *run_words], check=False, stdout=sys.stderr
    )
    if not out.exists():
        raise SystemExit("error: the run did not start; its message is above.")
    with record.open("a") as file:
        file.write(out.read_text() + "\n")
    show(options.run_dir, [json.loads(line) for line in record.read_text().splitlines()], words)


if __name__ == "__main__":
    entry.guard(main)
