"""The front on `local25`: `closed_form` and `frontier` at each budget, against `ft_dynamic`.

  python -m launch.data prepare --stream=local25
  python -m experiments.learner_studies.front --out=runs/front [--points=closed_form_tiny,frontier_tiny] [--seeds=0]
  python -m experiments.learner_studies.front --print_only

Every complete run is added to experiments/learner_studies/front.jsonl and is not repeated; an interrupted run continues
in its run directory. Printed from the file alone: the points with their target errors; differences
between neighbours of one learner and between the two at one budget; differences from `ft_dynamic` at
the budgets of experiments/learner_studies/paper_learners.jsonl, paired over tasks and seeds; and the errors of every task.
All ten points with three seeds take about an hour and a half of one core, most of it for
frontier_colossal.
"""  # noqa: E501

import itertools
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from nevis_stream.experiments import engine
from nevis_stream.experiments.learner_studies.recorded_runs import (
    RecordedRuns,
    Runs,
    print_differences,
    read_cost,
    read_errors,
    summarise_errors,
)
from nevis_stream.experiments.scripts import describe
from nevis_stream.streams.named_streams import list_stream_rows

STREAM = "local25"
BUDGETS = {
    "closed_form": ("tiny", "small", "medium", "large", "huge"),
    "frontier": ("tiny", "small", "medium", "giant", "colossal"),
}
POINTS = {
    f"{learner}_{budget}": (budget, learner)
    for learner, budgets in BUDGETS.items()
    for budget in budgets
}
TARGETS = {  # FLOPs of all phases, and the highest error over all tasks; a goal may be missed
    2e10: "0.38",
    5e10: "0.287",
    1.5e11: "0.257",
    1e12: "0.222",
    3e12: "0.20, goal 0.19",
    1e13: "goal 0.18",
    1e14: "goal 0.165",
}
RECORDED = RecordedRuns(Path(__file__).with_name("front.jsonl"), "budget")
PAPER = RecordedRuns(Path(__file__).with_name("paper_learners.jsonl"), "budget")


def find_target(flops: float) -> str:
    """Returns the target error at the lowest cost that is not below this one (3% allowed)."""
    return next(
        (f"{e} at {limit:.2g}" for limit, e in TARGETS.items() if flops <= 1.03 * limit), "-"
    )


def compare(points: list[str]) -> list[tuple[str, str]]:
    """Returns pairs of points, each the cheaper first: by learner, then by budget."""
    neighbours = [
        pair
        for learner in BUDGETS
        for pair in pairwise(name for name in points if POINTS[name][1] == learner)
    ]
    both = [
        (f"closed_form_{budget}", f"frontier_{budget}")
        for budget in BUDGETS["closed_form"]
        if budget in BUDGETS["frontier"]
    ]
    both += [("closed_form_huge", f"frontier_{budget}") for budget in ("giant", "colossal")]
    return neighbours + [pair for pair in both if set(pair) <= set(points)]


def main(
    out: Path = Path("runs/front"),
    points: Sequence[str] = tuple(POINTS),
    seeds: Sequence[int] = (0, 1, 2),
    print_only: bool = False,
) -> None:
    """Runs what is missing, one seed after another, and prints the tables."""
    for seed, name in () if print_only else itertools.product(seeds, points):
        values = {"stream": STREAM, "budget": POINTS[name][0]}
        RECORDED.measure((*POINTS[name], seed), out / name / f"seed-{seed}", values)
    runs = RECORDED.read()
    print(f"Printed on {describe()}")
    print_tables(runs, PAPER.read())


def print_tables(runs: Runs, paper: Runs) -> None:
    """Prints all tables of the points that are there.

    Args:
      runs: of the points.
      paper: of the paper's learners.
    """
    rows = list_stream_rows(STREAM)[1]
    tasks = [row["task_id"] for row in rows]
    is_judged = [row["meta_split"] == "test" for row in rows]
    points = [name for name in POINTS if any(run[:2] == POINTS[name] for run in runs)]
    tables = {name: read_errors(runs, *POINTS[name], tasks) for name in points}
    shown = []
    for name, table in tables.items():
        flops = read_cost(runs, *POINTS[name])
        meta = summarise_errors(table[is_judged])
        errors, target = summarise_errors(table), find_target(flops)
        shown.append([name, table.shape[1], errors, target, meta, f"{flops:.4g}"])
    print()
    engine.print_table(
        "point | seeds: | error, all tasks: | target, at most: | error, meta-test:"
        " | FLOPs of all phases:",
        shown,
    )
    pairs = [(f"{b} − {a}", tables[b], tables[a]) for a, b in compare(points)]
    for budget in dict.fromkeys(run[0] for run in paper if run[1] == "ft_dynamic"):
        theirs = read_errors(paper, budget, "ft_dynamic", tasks)
        pairs += [
            (f"{name} − ft_dynamic, {budget}", table, theirs) for name, table in tables.items()
        ]
    groups = {"all tasks": np.full(len(tasks), True), "meta-test": np.array(is_judged)}
    print_differences(
        (name, group, table[places], base[places])
        for name, table, base in pairs
        for group, places in groups.items()
    )
    print()
    engine.print_table(
        f"{': | '.join(['task', *tables])}:".replace(":", "", 1),
        (
            [task, *(f"{table[i].mean():.3f}" for table in tables.values())]
            for i, task in enumerate(tasks)
        ),
    )


if __name__ == "__main__":
    engine.start(main, keep_programs=False)
