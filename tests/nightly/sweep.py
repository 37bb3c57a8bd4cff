"""Kills commands, cuts the power and fails their changes of files, one change after the other.

python -m tests.nightly.sweep OUT [COMMAND ...] [--part=1/2] [--most=30]

After each fault the same command is started again, and what it leaves is compared with what it
leaves undisturbed. It writes a line for each point to OUT/points-PART.jsonl, goes on where it was
stopped, and prints a table of all parts (also in OUT/faults.md). It needs a C compiler.
"""

import argparse
import json
import os
import re
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from nevis_stream.storage import append_line
from tests.nightly import comparison, forking, power
from tests.nightly.commands import COMMANDS, Command
from tests.nightly.forking import Ended, Fault

KILLS = {"kill": Fault(forking.KILL), "kill in a write": Fault(forking.HALF)}
CUT = "power cut"
KINDS = (*KILLS, *forking.FAILURES, CUT)
DERIVED = re.compile(r"^data(/derived|$)")  # computed again when they are missing
CURVES = re.compile(r"(^|/)tensorboard(/|$)")  # not synced: nothing depends on them
FAULTS = ("wrong", "lost", "traceback", "litter")


class Undone(Exception):
    """A command does not work undisturbed."""


class Sweep:
    """The points of one command.

    Args:
      command: the command.
      folder: a folder for it, which is replaced.
    """

    def __init__(self, command: Command, folder: Path):
        shutil.rmtree(folder, ignore_errors=True)
        self.command = command
        self.trial, self._before = folder / "trial", folder / "before"
        self._journal = folder / "journal"
        (self.trial / forking.TEMPORARY).mkdir(parents=True)
        os.environ["NEVIS_STREAM_DATA"] = str(self.trial / "data")
        for step in command.setup:
            _require(forking.start(step, self.trial), step)
        shutil.copytree(self.trial, self._before)
        first = self._undisturbed()
        changes = power.read_changes(self._journal)
        forking.import_as(self._journal)
        self._once = self._undisturbed()
        again = self._start()
        twice = comparison.content(self.trial)
        # what differs between two undisturbed runs, such as times, is only looked for
        self.varying = {name for name in first if first[name] != self._once.get(name)}
        self._results = [self._comparable(each) for each in (self._once, twice)]
        self._statuses = {0, again.status}
        self._paths = {*first, *self._once, *twice}
        self.changes = {change.number: change.kind for change in changes}
        self._states = {
            (number, kind): state
            for number, kind, state in power.states_after_cuts(
                power.read_state(self._before), changes, self.trial
            )
        }

    def points(self) -> Iterator[tuple[str, int, str]]:
        """Yields kind, number of the change and details of each point."""
        for kind in KINDS[:-1]:
            for number, change in sorted(self.changes.items()):
                if kind != "kill in a write" or change == "write":
                    yield kind, number, change
        for number, state in self._states:
            yield CUT, number, state

    def examine(self, kind: str, number: int, details: str) -> dict[str, str] | None:
        """Returns what is wrong after a fault and the same command, by the kind of fault.

        None: the command ended before it could be killed, since threads change the order.
        """
        self._reset()
        self._without_curves = kind == CUT
        if kind == CUT:
            found = self._cut(number, details)
        else:
            fault = (KILLS | forking.FAILURES)[kind]
            ended = self._start(replace(fault, at=number))
            if kind in KILLS and ended.status != -signal.SIGKILL:
                return None
            found = _of_output(ended)
            self._without_curves = "curves for TensorBoard cannot be written" in ended.stderr
            if kind in forking.FAILURES:
                found |= self._of_failure(ended)
        return {**self._of_rerun(), **found}

    def _cut(self, number: int, details: str) -> dict[str, str]:
        """Cuts the power; after the last change, when success was announced, nothing is lost."""
        shutil.rmtree(self.trial)
        power.write_state(self._states[number, details], self.trial)
        return _as("lost", self._difference()) if number == max(self.changes) else {}

    def _of_failure(self, ended: Ended) -> dict[str, str]:
        """Checks a command whose change failed: it says so, or has done all."""
        if ended.status < 0:
            return {"wrong": f"ended by signal {-ended.status}"}
        if ended.status:
            return {} if ended.stderr.strip() else {"wrong": "failed without a word"}
        return _as("wrong", self._difference())

    def _of_rerun(self) -> dict[str, str]:
        ended = self._start()
        found = _of_output(ended)
        if ended.status not in self._statuses:
            said = ended.stderr.strip().splitlines()[-1:]
            found["wrong"] = f"the rerun ended with {ended.status}: {said}"
        return found | self._difference(litter=True)

    def _difference(self, litter: bool = False) -> dict[str, str]:
        """Compares what is there with what the undisturbed command leaves."""
        there, found = comparison.content(self.trial), {}
        needless = [DERIVED, CURVES] if self._without_curves else [DERIVED]
        missing = sorted(set(self._once) - set(there))
        missing = [name for name in missing if not any(each.search(name) for each in needless)]
        if missing:
            found["lost"] = f"missing: {missing[:5]}"
        different = [
            [name for name in right if name in there and there[name] != right[name]]
            for right in self._results
        ]
        if all(different):
            found["wrong"] = f"different: {different[0][:5]}"
        if litter and (more := sorted(set(there) - self._paths)):
            found["litter"] = f"{more[:5]}"
        return found

    def _comparable(self, content: dict[str, str]) -> dict[str, str]:
        return {name: each for name, each in content.items() if name not in self.varying}

    def _reset(self) -> None:
        shutil.rmtree(self.trial, ignore_errors=True)
        shutil.copytree(self._before, self.trial)

    def _start(self, fault: Fault | None = None) -> Ended:
        return forking.start(self.command.words, self.trial, fault)

    def _undisturbed(self) -> dict[str, str]:
        self._reset()
        fault = Fault(forking.RECORD, journal=self._journal)
        _require(self._start(fault), self.command.words)
        return comparison.content(self.trial)


def _as(fault: str, found: dict[str, str]) -> dict[str, str]:
    return {fault: "; ".join(["status 0", *found.values()])} if found else {}


def _require(ended: Ended, step) -> None:
    if ended.status:
        raise Undone(f"{step} ended with {ended.status} undisturbed:\n{ended.stderr}")


def _of_output(ended: Ended) -> dict[str, str]:
    if "Traceback (most recent call last)" in ended.stderr:
        return {"traceback": ended.stderr.strip()[-2000:]}
    return {"wrong": ended.stderr[-200:]} if ended.hangs else {}


def choose(points: list, most: int) -> list:
    """Returns at most `most` points, from all parts of a command."""
    if len(points) <= most:
        return points
    return [points[place * len(points) // most] for place in range(most)]


def sweep(command: Command, folder: Path, file: Path, most: int) -> None:
    """Examines the points of a command that a file of lines does not have yet, and adds them."""
    done = {tuple(each[:4]) for each in read_points(file)}
    result = Sweep(command, folder)
    print(
        f"{command.name}: {len(result.changes)} changes; differ between undisturbed runs:"
        f" {sorted(result.varying)}",
        flush=True,
    )
    points = list(result.points())
    most = max(1, most // 5) if command.trains else most
    for kind in KINDS:
        for point in choose([each for each in points if each[0] == kind], most):
            if (command.name, *point) in done:
                continue
            began = sum(os.times()[:4])
            found = result.examine(*point)
            line = [command.name, *point, found, round(sum(os.times()[:4]) - began, 2)]
            append_line(file, json.dumps(line))
            if found:
                print(*line[:4], json.dumps(found), flush=True)


def read_points(file: Path) -> list[list]:
    """Returns the lines of a file: command, kind, number, details, faults and CPU seconds."""
    text = file.read_text() if file.exists() else ""
    return [json.loads(line) for line in text.splitlines(True) if line.endswith("\n")]


def summary(points: list[list]) -> str:
    """Returns the day, the machine, the number of points and the table of counts."""
    from nevis_stream.experiments.scripts import describe  # loads JAX: not before the forks

    minutes = sum(point[-1] for point in points) / 60
    return f"{describe()}; {len(points):,} points in {minutes:.0f} CPU minutes.\n\n{table(points)}"


def table(points: list[list]) -> str:
    """Returns a table: for each command the points of each kind, and those with faults."""
    counts: dict[str, Counter] = {}
    for command, kind, _, _, found, _ in points:
        if found is not None:
            for row in (command, "all"):
                counts.setdefault(row, Counter()).update(["points", kind, *found])
    titles = ["points", *KINDS, *FAULTS]
    rows = [["command", *titles], ["---", *["--:"] * len(titles)]]
    rows += [[name, *(str(count[title]) for title in titles)] for name, count in counts.items()]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def main() -> None:
    """Sweeps; see the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("commands", nargs="*")
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--most", type=int, default=30)
    words = parser.parse_intermixed_args()
    if forking.compiler() is None:
        raise SystemExit("a C compiler is needed: cc, gcc or clang, or the one that CC names")
    words.out.mkdir(parents=True, exist_ok=True)
    if "FILE_FAULTS" not in os.environ:
        environment = forking.preload(words.out, os.environ | _environment(words.out))
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)
    part, parts = map(int, words.part.split("/"))
    named = [each for each in COMMANDS if not words.commands or each.name in words.commands]
    named.sort(key=lambda command: command.trains)
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else None))
    undone: list[str] = []
    try:
        for command in named[part - 1 :: parts]:
            try:
                sweep(command, folder / "work", words.out / f"points-{part}.jsonl", words.most)
            except Undone as error:
                undone.append(str(error))
    finally:
        shutil.rmtree(folder)
    points = [each for file in sorted(words.out.glob("points-*")) for each in read_points(file)]
    page = summary(points)
    (words.out / "faults.md").write_text(page)
    print(page, *undone, sep="\n")
    sys.exit(bool(undone))


def _environment(out: Path) -> dict[str, str]:
    """Returns the variables of the commands' environment: one thread, compiled programs kept."""
    return {
        "OPENBLAS_NUM_THREADS": "1",
        "JAX_PLATFORMS": "cpu",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "NEVIS_STREAM_CACHE": str(out / "cache"),
        "MPLCONFIGDIR": str(out / "matplotlib"),
    }


if __name__ == "__main__":
    main()
