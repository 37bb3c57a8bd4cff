"""Shows the progress of runs: tasks, trials, errors, FLOPs, time left. It ends when all runs are
complete.

  python -m launch.watch runs/a             one run in detail
  python -m launch.watch runs/*             several runs, one line each
  python -m launch.watch runs/a --once      print the current state and exit
  python -m launch.watch runs/a --wait      wait for a run that starts later

Without a terminal, --once is the default. A folder of several seeds stands for all of them.

It only reads files, can be started and stopped at any time, and works on any machine that can read
the run directory. Ctrl-C ends the display, not the run. A star marks the error of a judged task.
With --once, the exit status is 1 if a run cannot be read.
"""

import signal
import sys
import time
from pathlib import Path

from absl import flags

from nevis_stream.launch import entry
from nevis_stream.terminal import Console

_ONCE = flags.DEFINE_bool("once", False, "Print the current state of the runs and exit.")
_WAIT = flags.DEFINE_bool("wait", False, "Wait for run directories that do not exist yet.")
_EVERY = flags.DEFINE_float("every", 1.0, "Seconds between two updates.", lower_bound=0.1)


def main(argv):
    """Shows the runs once, or until they are complete."""
    if not argv:
        entry.fail("name at least one run directory: python -m launch.watch runs/a")
    from nevis_stream.run_directory.ledger import find_run_dirs

    named = [path for name in argv for path in find_run_dirs(Path(name), "config.json")]
    paths = _runs(list(dict.fromkeys(named)))
    console = Console()
    try:
        if _ONCE.value or not console.is_terminal:
            _print_once(paths, console)
        else:
            signal.signal(signal.SIGTERM, signal.default_int_handler)  # which restores the cursor
            _follow(paths, console)
    except KeyboardInterrupt:
        pass


def _runs(paths: list[Path]) -> list[Path]:
    """Returns the run directories among the paths; all paths with --wait."""
    from nevis_stream.launch import run_state

    if _WAIT.value:
        return paths
    reasons = {path: _reason(path) for path in paths if not run_state.is_run(path)}
    if len(reasons) == len(paths):
        entry.fail(_summary(reasons))
    if reasons:
        print(f"left out: {_summary(reasons)}")
    return [path for path in paths if path not in reasons]


def _summary(reasons: dict[Path, str]) -> str:
    """Returns why the first path is no run, and how many others are none."""
    more = len(reasons) - 1
    return next(iter(reasons.values())) + (f" (and {more} more that cannot be shown)" * bool(more))


def _reason(path: Path) -> str:
    if not path.exists():
        return f"{path}: no such directory. To wait for a run that starts later: --wait"
    return f"{path}: not a run directory"


def _print_once(paths: list[Path], console) -> None:
    from nevis_stream.launch.run_screen import render
    from nevis_stream.launch.run_state import state_of

    if not console.is_terminal:
        console = Console(width=120)
    states = [state_of(path) for path in paths]
    while _WAIT.value and not _ONCE.value and not all(state.title for state in states):
        time.sleep(_EVERY.value)
        states = [state_of(path) for path in paths]
    console.print(render(states, console))
    if any(state.trouble for state in states):
        sys.exit(entry.INCOMPLETE)


def _follow(paths: list[Path], console) -> None:
    from rich.live import Live

    from nevis_stream.launch.run_screen import render
    from nevis_stream.launch.run_state import state_of

    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            states = [state_of(path) for path in paths]
            live.update(render(states, console, rows=console.height), refresh=True)
            if all(state.complete for state in states):
                return
            time.sleep(_EVERY.value)


if __name__ == "__main__":
    entry.start(main, words="RUN_DIR ...")
