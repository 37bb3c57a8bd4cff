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

from itertools import pairwise
from pathlib import Path

from absl import flags

from nevis_stream.experiments.learner_studies.recorded_runs import (
    DIFFERENCES,
    RecordedRuns,
    Runs,
    define_choices,
    define_seeds,
    format_difference,
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

OUT = flags.DEFINE_string("out", "runs/front", "folder of the run directories")
NAMES = define_choices("points", POINTS, "points that are run")
SEEDS = define_seeds()
PRINT_ONLY = flags.DEFINE_bool("print_only", False, "print the tables, run nothing")


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


def main(_) -> None:
    """Runs what is missing, one seed after another, and prints the tables."""
    for seed in () if PRINT_ONLY.value else SEEDS.value:
        for name in NAMES.value:
            run = (*POINTS[name], int(seed))
            run_dir = Path(OUT.value) / name / f"seed-{seed}"
            RECORDED.measure(run, run_dir, {"stream": STREAM, "budget": POINTS[name][0]})
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
    print(
        "\n| point | seeds | error, all tasks | target, at most | error, meta-test | FLOPs of all"
        " phases |\n|---|---:|---:|---:|---:|---:|"
    )
    for name, table in tables.items():
        flops = read_cost(runs, *POINTS[name])
        meta = summarise_errors(table[is_judged])
        print(
            f"| {name} | {table.shape[1]} | {summarise_errors(table)} | {find_target(flops)}"
            f" | {meta} | {flops:.4g} |"
        )
    pairs = [(f"{b} − {a}", tables[b], tables[a]) for a, b in compare(points)]
    for budget in dict.fromkeys(run[0] for run in paper if run[1] == "ft_dynamic"):
        theirs = read_errors(paper, budget, "ft_dynamic", tasks)
        pairs += [
            (f"{name} − ft_dynamic, {budget}", table, theirs) for name, table in tables.items()
        ]
    print(DIFFERENCES)
    for name, table, base in pairs:
        print(format_difference(name, "all tasks", table, base))
        print(format_difference(name, "meta-test", table[is_judged], base[is_judged]))
    print(f"\n| task | {' | '.join(tables)} |\n|---|{'---:|' * len(tables)}")
    for i, task in enumerate(tasks):
        print(f"| {task} | {' | '.join(f'{t[i].mean():.3f}' for t in tables.values())} |")


if __name__ == "__main__":
    from nevis_stream.launch import entry

    entry.start(main)
