"""How runs are shown in a terminal: one in detail, several as a line each."""

import math
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from launch.watching.files import Holder, Trial
from launch.watching.state import DONE, NOW, RunState, TaskState
from nevis_stream.cost.engineering import engineering
from nevis_stream.report.notation import error

_WIDE = 90  # columns from which on everything has room
_MARKS = {DONE: "✓", NOW: "▶"}


def show(states: Sequence[RunState], console: Console, rows: int | None = None) -> RenderableType:
    """Returns what is printed: the only run in detail, or a line for each of several.

    Args:
      states: of the runs.
      console: where it is shown; narrow ones get fewer columns.
      rows: about how many lines there are; None: no limit.
    """
    return _one(states[0], console, rows) if len(states) == 1 else _several(states, console)


def condition(state: RunState) -> str:
    """Returns in words whether the run is at work."""
    if state.trouble:
        return "damaged"
    if state.complete:
        return "complete"
    if state.holder is None:
        return "not begun"
    if state.holder.alive is None:
        return "on another machine"
    return "at work" if state.holder.alive else "stopped"


def duration(seconds: float) -> str:
    """Returns a time in its two largest units.

    >>> duration(5.4), duration(3725), duration(200_000), duration(float("nan"))
    ('5 s', '1 h 2 min', '2 d 7 h', '–')
    """
    if math.isnan(seconds):
        return "–"
    whole = round(seconds)
    for size, unit, smaller, below in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // smaller} {below}"
    return f"{whole} s"


def _one(state: RunState, console: Console, rows: int | None) -> RenderableType:
    parts: list[RenderableType] = [
        Text(f"{state.path}: {state.title}" if state.title else str(state.path), style="bold")
    ]
    parts.append(Text(_situation(state)))
    if state.trouble or not state.title:
        return Group(*parts)
    if state.tasks:
        (everything, count), (judged, of_judged) = state.mean_error(False), state.mean_error(True)
        bar = Table.grid(padding=(0, 1))
        width = min(30, max(console.width - 40, 5))
        bar.add_row(
            f"{state.done} of {_length(state)} tasks",
            ProgressBar(len(state.tasks), state.done, width=width),
        )
        parts.append(bar)
        parts.append(
            Text(
                f"mean error so far {error(everything)} (n = {count}), of judged tasks"
                f" {error(judged)} (n = {of_judged} of {sum(task.judged for task in state.tasks)});"
                f" FLOPs of training {engineering(state.training)}, of everything"
                f" {engineering(state.everything)}"
            )
        )
    elif state.length is None:
        parts.append(Text("no task yet; the results decide on the tasks"))
    else:
        parts.append(Text("its tasks are unknown: stream.csv is missing or damaged"))
    room = None if rows is None else max(rows - 9, 4)
    trials = _trials(state, console, room and max(room // 2, 3))
    parts.append(
        _tasks(state, console, room and max(room - (trials.row_count + 2 if trials else 0), 3))
    )
    if trials:
        parts.append(trials)
    return Group(*parts)


def _situation(state: RunState) -> str:
    """One sentence on whether it works, for how long it has worked, and the time left."""
    if state.trouble:
        return f"This run cannot be read: {state.trouble}"
    if state.complete:
        return f"complete; worked {duration(state.worked)}"
    if not state.title or state.holder is None:
        return "not begun: no process has worked here yet"
    left = "time left unknown" if math.isnan(state.left) else f"about {duration(state.left)} left"
    worked = f"worked {duration(state.worked)}, {left}; last wrote {duration(state.quiet)} ago"
    return f"{_who(state.holder)}; {worked}"


def _who(holder: Holder) -> str:
    if holder.alive is None:
        return (
            f"at work on another machine, or stopped there ({holder.name}): from here only its"
            " writing can be seen"
        )
    if holder.alive:
        return f"at work ({holder.name})"
    return f"stopped (it was {holder.name}): start the same command again to continue"


def _tasks(state: RunState, console: Console, room: int | None) -> Table:
    """The stream's tasks; where there is not room for all, those around the current one."""
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    table.add_column("", no_wrap=True)
    table.add_column("task", no_wrap=True, overflow="ellipsis")
    wide = console.width >= _WIDE // 2
    if wide:
        table.add_column("year", no_wrap=True)
    table.add_column("error", justify="right", no_wrap=True)
    if wide:
        table.add_column("time", justify="right", no_wrap=True)
    shown = list(enumerate(state.tasks, start=1))
    if room is not None and len(shown) > room:
        first = min(max(state.done - room // 2, 0), len(shown) - room)
        shown = shown[first : first + room]
    for number, task in shown:
        year = [task.year] if wide else []
        took = [duration(task.seconds) if task.state == DONE else ""] if wide else []
        mark = f"{_MARKS.get(task.state, ' ')} {number}"
        table.add_row(mark, task.task_id, *year, _error(state, task), *took, style=_style(task))
    return table


def _error(state: RunState, task: TaskState) -> str:
    if task.state == NOW:
        return state.doing if state.holder and state.holder.alive is not False else "stopped"
    return error(task.error) + ("*" if task.judged else " ") if task.state == DONE else ""


def _style(task: TaskState) -> str:
    return {DONE: "", NOW: "bold"}.get(task.state, "dim")


def _trials(state: RunState, console: Console, room: int | None) -> Table | None:
    """The trials of the task that is trained: those that run, and of the others the best."""
    if not state.trials:
        return None
    worst = math.inf
    ranked = sorted(
        state.trials,
        key=lambda t: (t.done, worst if t.dev_error is None else t.dev_error, t.number),
    )
    best = min((t.dev_error for t in state.trials if t.dev_error is not None), default=None)
    done = sum(trial.done for trial in state.trials)
    title = f"trials: {done} of {max(state.trials_wanted or 0, len(state.trials))} done"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 1))
    wide = console.width >= _WIDE // 2
    for name in ("trial", "step", "lowest dev error" if wide else "dev error"):
        table.add_column(name, justify="right", no_wrap=True)
    for trial in sorted(ranked[:room], key=lambda t: t.number):
        lowest = "–" if trial.dev_error is None else f"{trial.dev_error:.4f}"
        step = _step(trial, state.steps_wanted if wide else None)
        table.add_row(
            str(trial.number),
            step,
            lowest,
            style="bold" if best is not None and trial.dev_error == best else "",
        )
    return table


def _step(trial: Trial, wanted: int | None) -> str:
    if trial.step is None:
        return "done" if trial.done else "–"
    of = f" of {wanted}" if wanted and wanted >= trial.step else ""
    return f"{trial.step}{of}" + (" ✓" if trial.done else "")


def _several(states: Sequence[RunState], console: Console) -> Table:
    wide, middle = console.width >= _WIDE + 30, console.width >= _WIDE - 20
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    table.add_column("run", overflow="fold")
    table.add_column("is")
    table.add_column("tasks", justify="right", no_wrap=True)
    if middle:
        table.add_column("now", overflow="ellipsis", no_wrap=True)
        table.add_column("mean error", justify="right")
    if wide:
        table.add_column("FLOPs", justify="right", no_wrap=True)
        table.add_column("worked", justify="right", no_wrap=True)
    table.add_column("left", justify="right", no_wrap=True)
    for state in states:
        length = "?" if state.length is None else state.length
        tasks = f"{state.done}/{length}" if state.tasks else "–"
        cells: list[str | Text] = [Text(str(state.path)), condition(state), tasks]
        if middle:
            cells += [_now(state), error(state.mean_error(False)[0])]
        if wide:
            cells += [engineering(state.everything), duration(state.worked)]
        table.add_row(*cells, "" if state.complete else duration(state.left))
    return table


def _length(state: RunState) -> str:
    return "an unknown number of" if state.length is None else str(state.length)


def _now(state: RunState) -> str:
    task = next((task.task_id for task in state.tasks if task.state == NOW), "")
    if state.doing == "train" and state.trials:
        done = sum(trial.done for trial in state.trials)
        return f"{task}: {done} of {max(state.trials_wanted or 0, len(state.trials))} trials"
    return f"{state.doing} {task}".strip()
