"""Shows runs while other processes make them: tasks, trials, errors, FLOPs, time left; ends when
all are complete.

  python -m launch.watch runs/a             one run in detail
  python -m launch.watch runs/*             several, one line each
  python -m launch.watch runs/a --once      the current state, for logs; also where the output is no terminal
  python -m launch.watch runs/a --wait      a run that starts later

It only reads files: it locks nothing and writes nothing, and may be started and stopped at any
time, on any machine that sees the run directory. Ctrl-C ends it, not the run. An error with a star
belongs to a judged task.
"""  # noqa: E501

import signal
import time
from pathlib import Path

from absl import flags

from launch import entry

_ONCE = flags.DEFINE_bool("once", False, "Print the current state of the runs and end.")
_WAIT = flags.DEFINE_bool("wait", False, "Wait for run directories that are not there yet.")
_EVERY = flags.DEFINE_float(
    "every", 1.0, "Seconds between two looks at the files.", lower_bound=0.1
)


def main(argv):
    """Shows the runs once, or until they are complete."""
    if not argv:
        entry.fail("name at least one run directory: python -m launch.watch runs/a")
    from nevis_stream.terminal import Console

    paths = _runs([Path(name) for name in dict.fromkeys(argv)])
    console = Console()
    try:
        if _ONCE.value or not console.is_terminal:
            _print_once(paths, console)
        else:
            signal.signal(signal.SIGTERM, signal.default_int_handler)  # the cursor comes back
            _follow(paths, console)
    except KeyboardInterrupt:
        pass


def _runs(paths: list[Path]) -> list[Path]:
    """Leaves out what is no run directory; nothing that is one, or is waited for, may be left."""
    from launch.watching import files

    if _WAIT.value:
        return paths
    reasons = {path: _reason(path) for path in paths if not files.is_run(path)}
    if len(reasons) == len(paths):
        entry.fail("; ".join(reasons.values()))
    for reason in reasons.values():
        print(f"left out: {reason}")
    return [path for path in paths if path not in reasons]


def _reason(path: Path) -> str:
    if not path.exists():
        return f"{path}: no such directory. If the run starts later: --wait"
    inside = list(path.glob("*/config.json")) if path.is_dir() else []
    return f"{path}: not a run directory" + (
        f"; it holds run directories, give {path}/*" if inside else ""
    )


def _print_once(paths: list[Path], console) -> None:
    from launch.watching.screen import show
    from launch.watching.state import state_of
    from nevis_stream.terminal import Console

    if not console.is_terminal:
        console = Console(width=120)
    while True:
        states = [state_of(path) for path in paths]
        if _ONCE.value or not _WAIT.value or all(state.title for state in states):
            console.print(show(states, console))
            return
        time.sleep(_EVERY.value)


def _follow(paths: list[Path], console) -> None:
    from rich.live import Live

    from launch.watching.screen import show
    from launch.watching.state import state_of

    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        while True:
            states = [state_of(path) for path in paths]
            live.update(show(states, console, rows=console.height), refresh=True)
            if all(state.complete for state in states):
                return
            time.sleep(_EVERY.value)


if __name__ == "__main__":
    entry.start(main, words="RUN_DIR ...")
