"""Times the steps from building the wheel to the first result, as for a new user.

    python -m benchmarks.first_result [--repeats=1]

Builds the wheel; makes a new environment in an empty directory, installs the wheel there with the
versions of constraints.txt, and runs README's first commands as console commands from another empty
directory, with no cache from earlier runs. Prints a Markdown table. The packages come from the
package index or from pip's cache of it, so the time of the installation depends on the network.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from nevis_stream.experiments import engine
from nevis_stream.experiments.scripts import call, describe

ROOT = Path(__file__).resolve().parents[1]
_PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet")


def time_command(command: list[str], folder: Path, environment: dict[str, str]) -> float:
    """Runs a command and returns the seconds of wall-clock time that it took."""
    begin = time.monotonic()
    call(command, cwd=folder, env=environment)
    return time.monotonic() - begin


def run_demo(command: str, folder: Path, environment: dict[str, str]) -> tuple[float, float]:
    """Runs the demo; returns the seconds until it prints its first error of a task, and until its
    report is written.

    Raises:
      RuntimeError: the demo failed, or printed no error of a task.
    """
    begin, first, lines = time.monotonic(), None, []
    with subprocess.Popen(
        [command, "demo"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        for line in process.stdout or ():
            lines.append(line)
            if first is None and ": error 0." in line:
                first = time.monotonic() - begin
    if process.returncode or first is None:
        raise RuntimeError("nevis-stream demo:\n" + "".join(lines))
    if not (folder / "runs" / "demo" / "report" / "report.html").is_file():
        raise RuntimeError("nevis-stream demo wrote no report")
    return first, time.monotonic() - begin


def measure(folder: Path) -> dict[str, float]:
    """Takes the steps once, in an empty folder; returns the seconds of each by its name."""
    home, work = folder / "home", folder / "work"
    home.mkdir()
    work.mkdir()
    inherited = {"PYTHONPATH", "NEVIS_STREAM_CACHE", "NEVIS_STREAM_SHARED", "XDG_CACHE_HOME"}
    clean = {name: value for name, value in os.environ.items() if name not in inherited}
    own = clean | {"HOME": str(home)}  # no cache of compiled programs
    steps = {}
    wheel = [sys.executable, *_PIP, "wheel", "--no-deps", f"--wheel-dir={folder}", str(ROOT)]
    steps["build the wheel"] = time_command(wheel, folder, clean)
    (built,) = folder.glob("nevis_stream-*.whl")
    venv = [sys.executable, "-m", "venv", str(folder / "venv")]
    steps["make an environment"] = time_command(venv, folder, clean)
    programs = folder / "venv" / "bin"
    constraints = ROOT / "constraints.txt"
    install = [str(programs / "python"), *_PIP, "install", f"--constraint={constraints}"]
    steps["`pip install` of the wheel"] = time_command([*install, str(built)], folder, clean)
    command = str(programs / "nevis-stream")
    steps["`nevis-stream --help`"] = time_command([command, "--help"], work, own)
    first, whole = run_demo(command, work, own)
    steps["`nevis-stream demo`: the first error of a task"] = first
    steps["`nevis-stream demo`: the report"] = whole
    return steps


def main(repeats: int = 1) -> None:
    """Prints the table.

    Args:
      repeats: number of times that the steps are taken
    """
    before = describe()
    rounds = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            rounds.append(measure(Path(folder)))
    print(f"{before} before and {os.getloadavg()[0]:.1f} after; n = {repeats}, wall-clock time\n")
    engine.print_table("step | s:", ())
    for step in rounds[0]:
        values = sorted(times[step] for times in rounds)
        spread = f" ({values[0]:.1f}–{values[-1]:.1f})" if repeats > 1 else ""
        engine.print_row([step, f"{values[len(values) // 2]:.1f}{spread}"])


if __name__ == "__main__":
    engine.start(main, keep_programs=False)
