"""How runs are shown in a terminal: a single run in detail, several with a line each."""

import math
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from nevis_stream.cost.meter import format_engineering
from nevis_stream.launch.run_state import DONE, NOW, Holder, RunState, TaskState, TrialState
from nevis_stream.report.notation import format_error

_WIDE = 100  # columns from which on a line has room for every fact of a run
_MARKS = {DONE: "✓", NOW: "▶"}
_STYLES = {DONE: "", NOW: "bold"}


def render(states: Sequence[RunState], console: Console, rows: int | None = None) -> RenderableType:
    """Returns what is printed: a single run in detail, or a line for each of several.

    Args:
      states: of the runs.
      console: where they are shown.
      rows: about how many lines fit; None: no limit.
    """
    return _details(states[0], console, rows) if len(states) == 1 else _lines(states, console)


def describe_condition(state: RunState) -> str:
    """Returns in words whether the run is being worked on."""
    if state.trouble:
        return "damaged"
    if state.complete:
        return "complete"
    if state.holder is None:
        return "not started"
    if state.holder.alive is None:
        return "on another machine"
    return "running" if state.holder.alive else "stopped"


def format_duration(seconds: float) -> str:
    """Returns a time in its two largest units.

    >>> format_duration(5.4), format_duration(3725), format_duration(float("nan"))
    ('5 s', '1 h 2 min', '–')
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


def _details(state: RunState, console: Console, rows: int | None) -> RenderableType:
    title = f"{state.path}: {state.title}" if state.title else str(state.path)
    parts: list[RenderableType] = [Text(title, style="bold"), Text(_describe_situation(state))]
    if state.trouble or not state.title:
        return Group(*parts)
    if state.tasks:
        parts += _summary(state, console)
    elif state.length is None:
        parts.append(Text("no task yet; the tasks depend on the results"))
    else:
        parts.append(Text("its tasks are unknown: stream.csv is missing or damaged"))
    room = 10**6 if rows is None else max(rows - 9, 4)
    trials = _trials(state, max(room // 2, 3)) if state.trials else None
    parts.append(_tasks(state, max(room - (trials.row_count + 2 if trials else 0), 3)))
    return Group(*parts, *([trials] if trials else []))


def _summary(state: RunState, console: Console) -> list[RenderableType]:
    (mean, count), (judged_mean, judged) = state.mean_error(False), state.mean_error(True)
    length = "an unknown number of" if state.length is None else state.length
    bar = Table.grid(padding=(0, 1))
    bar.add_row(
        f"{state.done} of {length} tasks",
        ProgressBar(len(state.tasks), state.done, width=min(30, max(console.width - 40, 5))),
    )
    means = Text(
        f"error so far: all tasks {format_error(mean)} (n = {count}), judged tasks"
        f" {format_error(judged_mean)} (n = {judged} of"
        f" {sum(task.judged for task in state.tasks)}), the mean error of reports; training FLOPs"
        f" {_flops(state.training)}, FLOPs of all phases {_flops(state.everything)}"
    )
    return [bar, means]


def _flops(value: float) -> str:
    return "unknown" if math.isnan(value) else format_engineering(value)


def _describe_situation(state: RunState) -> str:
    """One sentence on whether the run is being worked on, for how long, and the time left."""
    if state.trouble:
        return f"This run cannot be read: {state.trouble}"
    if state.complete:
        return f"complete; it took {format_duration(state.worked)}"
    if not state.title or state.holder is None:
        return "not started: no process has worked here yet"
    left = (
        "time left unknown"
        if math.isnan(state.left)
        else f"about {format_duration(state.left)} left"
    )
    return (
        f"{_who(state.holder)}; {format_duration(state.worked)} so far, {left}; last wrote"
        f" {format_duration(state.quiet)} ago"
    )


def _who(holder: Holder) -> str:
    if holder.alive is None:
        return (
            f"running on another machine, or stopped there ({holder.name}); from here only its"
            " files can be seen"
        )
    if holder.alive:
        return f"running ({holder.name})"
    return f"stopped (it was {holder.name}); start the same command again to continue"


def _tasks(state: RunState, room: int) -> Table:
    """The stream's tasks; if there is no room for all, those around the current one."""
    table = _table("", "task", "year", right=("error", "time"))
    first = min(max(state.done - room // 2, 0), max(len(state.tasks) - room, 0))
    for number, task in enumerate(state.tasks[first : first + room], start=first + 1):
        took = format_duration(task.seconds) if task.state == DONE else ""
        mark = f"{_MARKS.get(task.state, ' ')} {number}"
        cells = mark, task.task_id, task.year, _error(state, task), took
        table.add_row(*cells, style=_STYLES.get(task.state, "dim"))
    return table


def _error(state: RunState, task: TaskState) -> str:
    if task.state == NOW:
        return state.doing if state.holder and state.holder.alive is not False else "stopped"
    return format_error(task.error) + ("*" if task.judged else " ") if task.state == DONE else ""


def _trials(state: RunState, room: int) -> Table:
    """The trials of the task that is trained, as many as there is room for: unfinished ones first,
    then those with the lowest dev error.
    """
    ranked = sorted(state.trials, key=lambda t: (t.done, math.isnan(t.dev_error), t.dev_error))
    table = _table(right=("trial", "step", "lowest dev error"))
    table.title, table.title_justify = f"trials: {_trials_done(state)} done", "left"
    for trial in sorted(ranked[:room], key=lambda trial: trial.number):
        table.add_row(
            str(trial.number), _step(trial, state.steps_wanted), format_error(trial.dev_error)
        )
    return table


def _step(trial: TrialState, wanted: int | None) -> str:
    if trial.step is None:
        return "done" if trial.done else "–"
    total = f" of {wanted}" if wanted and wanted >= trial.step else ""
    return f"{trial.step}{total}" + (" ✓" if trial.done else "")


def _trials_done(state: RunState) -> str:
    done = sum(trial.done for trial in state.trials)
    return f"{done} of {max(state.trials_wanted or 0, len(state.trials))}"


def _lines(states: Sequence[RunState], console: Console) -> Table:
    facts = ("now", "error, all tasks", "FLOPs", "time so far") if console.width >= _WIDE else ()
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    for name in ("run", "state"):
        table.add_column(name, overflow="fold")
    for name in ("tasks", *facts, "time left"):
        table.add_column(name, justify="left" if name == "now" else "right")
    for state in states:
        length = "?" if state.length is None else state.length
        cells = [f"{state.done}/{length}" if state.tasks else "–"]
        if facts:
            cells += [_now(state), format_error(state.mean_error(False)[0])]
            cells += [_flops(state.everything), format_duration(state.worked)]
        cells.append("" if state.complete else format_duration(state.left))
        table.add_row(Text(str(state.path)), describe_condition(state), *cells)
    return table


def _now(state: RunState) -> str:
    task = next((task.task_id for task in state.tasks if task.state == NOW), "")
    if state.doing == "train" and state.trials:
        return f"{task}: {_trials_done(state)} trials"
    return f"{state.doing} {task}".strip()


def _table(*left: str, right: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1))
    for name in left:
        table.add_column(name, no_wrap=True, overflow="ellipsis")
    for name in right:
        table.add_column(name, justify="right", no_wrap=True, overflow="ellipsis")
    return table
