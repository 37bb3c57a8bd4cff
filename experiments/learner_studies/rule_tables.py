"""Tables of the runs by the paper's rules, from paper_rule.jsonl alone.

    python -m experiments.learner_studies.rule_tables [--record=FILE]

For each setting in which several learners ran: points and differences, over the tasks that all
have; and for each learner forward transfer on repeats (NEVIS'22, eq. 5) from its curves, how often
a task starts from the previous one, and the depth of its fine-tuning graph. Of a setting with
several processors that is said: only runs of one are to be compared.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.analysis.forward_transfer import average_transfer, measure_areas
from nevis_stream.experiments import engine
from nevis_stream.experiments.learner_studies.recorded_runs import (
    RecordedRuns,
    Run,
    print_pairs,
    print_points,
)


def measure_transfer(curves: Mapping[str, Any]) -> dict[str, float]:
    """Returns FWT by the later task of each pair NAME, NAME_2; NaN where it is undefined."""
    found = {}
    for later in curves:
        if (first := later.removesuffix("_2")) != later and first in curves:
            areas = measure_areas(*([tuple(point) for point in curves[t]] for t in (first, later)))
            found[later] = (areas[1] - areas[0]) / (1 - areas[0]) if areas[0] < 1 else math.nan
    return found


def describe_starts(starts: Mapping[str, str]) -> tuple[int, int]:
    """Returns how many tasks start from the task before, and the depth of the fine-tuning graph."""
    tasks, depth = list(starts), dict.fromkeys(starts, 0)
    for task, source in starts.items():
        depth[task] = depth.get(source, -1) + 1
    previous = sum(starts[b] == a for a, b in zip(tasks, tasks[1:], strict=False))
    return previous, max(depth.values())


def print_setting(runs: Mapping[Run, Mapping[str, Any]], setting: str) -> None:
    """Prints the tables of a setting."""
    own = {run: result for run, result in runs.items() if run[0] == setting}
    learners = list(dict.fromkeys(run[1] for run in own))
    errors = [result["errors"] for result in own.values()]
    tasks = [task for task in errors[0] if all(task in each for each in errors)]
    print_points(setting, runs, setting, learners, {f"{len(tasks)} tasks": tasks})
    print_pairs(runs, setting, learners, {"tasks": tasks})
    machines = sorted({f"{r['processor']}, commit {r['commit']}" for r in own.values()})
    print(f"\nMeasured on {'; '.join(machines)}.")
    rows = []
    for name in learners:
        seeds = [result for run, result in own.items() if run[1] == name]
        values = [measure_transfer(result["curves"]) for result in seeds]
        shown = "no repeats"
        if repeats := list(values[0]):
            fwt = average_transfer(
                np.asarray([[each[task] for each in values] for task in repeats])
            )
            shown = f"{fwt.estimate:+.3f} ({fwt.low:+.3f} to {fwt.high:+.3f})"
        graph = np.asarray([describe_starts(result["starts"]) for result in seeds]).mean(axis=0)
        seconds = np.mean([result.get("cpu_seconds", math.nan) for result in seeds])
        of = len(seeds[0]["starts"]) - 1
        starts = f"{graph[0]:.1f} of {of}"
        rows.append([name, shown, starts, f"{graph[1]:.1f}", f"{seconds:.0f}"])
    print()
    engine.print_table(
        "learner | FWT on repeats | starts from the task before: | depth of the graph:"
        " | CPU seconds:",
        rows,
    )


def main(record: Path = Path(__file__).with_name("paper_rule.jsonl")) -> None:  # noqa: B008
    """Prints the tables of all settings with several learners."""
    runs: Mapping[Run, Mapping[str, Any]] = RecordedRuns(record, "setting").read()
    for setting in dict.fromkeys(run[0] for run in runs):
        if len({run[1] for run in runs if run[0] == setting}) > 1 and "matrix" not in setting:
            print_setting(runs, setting)


if __name__ == "__main__":
    engine.start(main, keep_programs=False)
