"""Recorded runs: what each complete run found, on record.

Of every task there are its error, the task it started from, the scores of relatedness and the
learning curve on dev; of the run its FLOPs by phase, the project's commit and the processor. Runs
of before 2026-11-28 have errors and FLOPs alone.

Several studies measure many long runs, add each complete one to a record of their own, and print
their tables from that record, so that an interrupted study continues where it stopped.
"""

import itertools
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.analysis.bootstrap import bound_over_tasks
from nevis_stream.analysis.points import sum_phase_flops
from nevis_stream.errors import BadInput
from nevis_stream.experiments import engine
from nevis_stream.experiments.scripts import call
from nevis_stream.experiments.study_record import StudyRecord
from nevis_stream.run_directory import environment
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import PredictRecord, TrainRecord
from nevis_stream.streams.named_streams import list_unprepared
from nevis_stream.vocabulary import PHASES

Run = tuple[str, str, int]  # setting, learner, seed


@dataclass(frozen=True)
class RecordedRuns:
    """The complete runs of one study.

    Attributes:
      file: its record, which need not exist.
      setting: name of what differs between runs of one learner, for example "stream" or "budget".
    """

    file: Path
    setting: str

    def read(self) -> dict[Run, dict[str, dict[str, float]]]:
        """Returns by run: {"errors": by task, "flops": of the whole run by phase}.

        Raises:
          BadInput: none is recorded.
        """
        record = self._record
        if not len(record):
            raise BadInput(
                f"{self.file}: no complete run is recorded; run this without --print_only"
            )
        return {tuple(cell[name] for name in self._names): run for cell, run in record.items()}

    def measure(self, run: Run, run_dir: Path, values: Mapping[str, object]) -> None:
        """Runs a learner, unless the run is on record, and adds the result.

        Args:
          run: its name on record.
          run_dir: its directory; an interrupted run continues.
          values: of the config, by dotted name.

        Raises:
          BadInput: data sets are not prepared.
          SystemExit: the run failed, and its messages are on stderr.
        """
        if self.has(run):
            return
        require_prepared(str(values["stream"]))
        _, learner, seed = run
        call(make_command(learner, seed, run_dir, values))
        self.add(run, read_result(run_dir))

    def add(self, run: Run, result: Mapping[str, Any]) -> None:
        """Adds the result of a run."""
        self._record.add(self._cell(run), result)

    def has(self, run: Run) -> bool:
        """Whether a run is on record."""
        return self._cell(run) in self._record

    def _cell(self, run: Run) -> dict[str, Any]:
        return dict(zip(self._names, run, strict=True))

    @property
    def _record(self) -> StudyRecord:
        return StudyRecord(self.file)

    @property
    def _names(self) -> tuple[str, ...]:
        return (self.setting, "learner", "seed")


def make_command(learner: str, seed: int, run_dir: Path, values: Mapping[str, object]) -> list[str]:
    """Returns the command that runs a learner with values of the config, by dotted name."""
    command = [sys.executable, "-m", "launch.run", f"--config={learner}"]
    command += [f"--config.{name}={value}" for name, value in values.items()]
    return [*command, f"--config.seed={seed}", f"--run_dir={run_dir}"]


def read_result(run_dir: Path) -> dict[str, Any]:
    """Returns what is kept of a complete run; see the module. A curve is (step, dev error) of the
    trial that was chosen.
    """
    ledger = Ledger(run_dir)
    chosen = {
        record.task_id: record.chosen_trial.info
        for record in ledger.of_kind(TrainRecord)
        if record.chosen_trial
    }
    machines = environment.read(run_dir / environment.FILE_NAME)
    return {
        "errors": {each.task_id: each.error for each in ledger.of_kind(PredictRecord)},
        "flops": sum_phase_flops(ledger),
        "starts": {task: info.get("initialised_from") for task, info in chosen.items()},
        "helpers": {task: info["helpers"] for task, info in chosen.items() if "helpers" in info},
        "scores": {task: info["related"] for task, info in chosen.items() if "related" in info},
        "curves": {
            task: [(step, error) for step, _, error in info.get("curve", ())]
            for task, info in chosen.items()
        },
    } | {
        name: " and ".join(sorted({str(each.get(key) or "unknown") for each in machines}))
        for name, key in (("commit", "project"), ("processor", "processor"))
    }


Runs = Mapping[Run, Mapping[str, Mapping[str, float]]]


def require_prepared(stream: str) -> None:
    """Checks that no data set of a stream is read from shared files: the errors would be others.

    Raises:
      BadInput: some are; the message names them.
    """
    if names := list_unprepared(stream):
        raise BadInput(
            f"not prepared: {', '.join(names)}. Run python -m launch.data prepare --stream={stream}"
        )


def read_errors(runs: Runs, setting: str, learner: str, tasks: Sequence[str]) -> np.ndarray:
    """Returns float[tasks, seeds]: the errors of a learner in one setting."""
    seeds = [run for run in sorted(runs) if run[:2] == (setting, learner)]
    return np.asarray([[runs[run]["errors"][task] for run in seeds] for task in tasks])


def read_cost(runs: Runs, setting: str, learner: str) -> float:
    """Returns the FLOPs of all phases of a learner, averaged over its seeds."""
    seeds = [each["flops"] for run, each in runs.items() if run[:2] == (setting, learner)]
    return float(np.mean([sum(flops[phase] for phase in PHASES) for flops in seeds]))


def summarise_errors(table: np.ndarray) -> str:
    """Returns the mean over seeds of the mean over tasks, with the lowest and the highest."""
    values = table.mean(axis=0)
    return f"{values.mean():.4f} ({values.min():.4f}–{values.max():.4f})"


def print_points(
    title: str,
    runs: Runs,
    setting: str,
    learners: Sequence[str],
    groups: Mapping[str, Sequence[str]],
) -> None:
    """Prints the errors of each learner on each group of tasks, and its cost."""
    rows = []
    for name in learners:
        tables = [read_errors(runs, setting, name, tasks) for tasks in groups.values()]
        cells = [*map(summarise_errors, tables), f"{read_cost(runs, setting, name):.3g}"]
        rows.append([name, tables[0].shape[1], *cells])
    errors = " | ".join(f"error, {group}:" for group in groups)
    print()
    engine.print_table(f"{title} | seeds: | {errors} | FLOPs of all phases:", rows)


def print_differences(rows: Iterable[tuple[str, str, np.ndarray, np.ndarray]]) -> None:
    """Prints a row for each difference of errors, those of A minus those of B.

    Args:
      rows: name of the difference, name of the group of tasks, and errors of A and of B,
        float[tasks, seeds], of the same tasks.
    """
    print()
    engine.print_table(
        "difference in error | tasks | mean: | 95% interval, paired over tasks and seeds"
        " | tasks better / worse:",
        itertools.starmap(_show_difference, rows),
    )


def _show_difference(name: str, group: str, a: np.ndarray, b: np.ndarray) -> list[str]:
    """Returns the cells of a row."""
    found, mean = bound_over_tasks(a, b), a.mean(axis=1) - b.mean(axis=1)
    interval = "too few tasks" if found.reason else f"{found.low:+.4f} to {found.high:+.4f}"
    counts = f"{(mean < 0).sum()} / {(mean > 0).sum()}"
    return [name, f"{group}, {len(a)}", f"{found.estimate:+.4f}", interval, counts]


def print_pairs(
    runs: Runs, setting: str, learners: Sequence[str], groups: Mapping[str, Sequence[str]]
) -> None:
    """Prints the difference of every pair of learners on every group of tasks."""
    if len(learners) > 1:
        print_differences(
            (
                f"{second} − {first}",
                group,
                *(read_errors(runs, setting, name, tasks) for name in (second, first)),
            )
            for first, second in itertools.combinations(learners, 2)
            for group, tasks in groups.items()
        )
