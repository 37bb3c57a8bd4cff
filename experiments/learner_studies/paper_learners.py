"""All learners of the paper on `local25`.

  python -m launch.data prepare --stream=local25
  python -m experiments.learner_studies.paper_learners --out=runs/paper [--learners=indep,mt] [--budgets=2x480]
  python -m experiments.learner_studies.paper_learners --print_only

Ten learners, three seeds, and the budgets 2x480 and 1x2400 (trials × steps); the largest, 1x10000,
for Indep, FT-prev, FT-d and PT-FT, which has the lowest error of the rest at 1x2400. BHPO searches
its large space with four trials that together take as many steps. The backbones of PT are
pre-trained here first; the shared data contain what they are pre-trained on. FT-d, FT-s, MT and
PT-FT have a margin of four standard errors here, so they are not the paper's (paper_rule.py).

Every complete run is added to experiments/learner_studies/paper_learners.jsonl and is not repeated; an interrupted run
continues in its run directory. The tables are printed from the file alone. Runs count together
only if they were made with the same state of the engine: start a new file after a change of
numbers (benchmarks/equal_results.py shows it).
"""  # noqa: E501

import itertools
from collections.abc import Sequence
from pathlib import Path

from nevis_stream.errors import look_up
from nevis_stream.experiments import engine
from nevis_stream.experiments.learner_studies.paper_settings import (
    BUDGETS,
    LEARNERS,
    STREAM,
    make_pretraining,
)
from nevis_stream.experiments.learner_studies.recorded_runs import (
    RecordedRuns,
    Runs,
    print_pairs,
    print_points,
)
from nevis_stream.experiments.scripts import call, describe
from nevis_stream.streams.named_streams import list_stream_rows

_LARGEST = ("indep", "ft_prev", "ft_dynamic", "pt_ft")
_MARGIN = {"select.margin": "4"}  # all runs on record have it; paper_rule.py has the paper's rule
_CHOOSING = ("ft_dynamic", "ft_static", "mt", "pt_ft")
RECORDED = RecordedRuns(Path(__file__).with_name("paper_learners.jsonl"), "budget")


def make_settings(budget: str, learner: str) -> dict[str, str]:
    """Returns the values of the config, by dotted name."""
    values = {"budget": "small", **BUDGETS[budget]}
    if learner == "bhpo":  # four trials share the steps of all trials
        steps = int(values["search.trials"]) * int(values["train.steps"]) // 4
        values = {"budget": "small", "search.trials": "4", "train.steps": str(steps)}
        values |= {"train.validate_every": str(steps // 4)}
    return values | (_MARGIN if learner in _CHOOSING else {})


def measure(budget: str, learner: str, seed: int, folder: Path) -> None:
    """Runs a learner, unless it is on record; pre-trains the weights that it starts from."""
    run = budget, learner, seed
    if not RECORDED.has(run):
        folder.mkdir(parents=True, exist_ok=True)
        values: dict[str, object] = {**make_settings(budget, learner), "stream": STREAM}
        if weights := LEARNERS[learner]:
            file = folder / f"{weights}.safetensors"
            call(make_pretraining(weights, file))
            values["pretrained.path"] = file
        RECORDED.measure(run, folder / budget / learner / f"seed-{seed}", values)


def print_budget(runs: Runs, budget: str) -> None:
    """Prints the points of a budget, and the differences of every pair of learners."""
    names = [name for name in LEARNERS if any(run[:2] == (budget, name) for run in runs)]
    rows = list_stream_rows(STREAM)[1]
    groups = {
        "all tasks": [row["task_id"] for row in rows],
        "meta-test": [row["task_id"] for row in rows if row["meta_split"] == "test"],
    }
    print_points(budget, runs, budget, names, groups)
    print_pairs(runs, budget, names, groups)


def main(
    out: Path = Path("runs/paper"),
    learners: Sequence[str] = tuple(LEARNERS),
    budgets: str = "2x480,1x2400",
    seeds: Sequence[int] = (0, 1, 2),
    print_only: bool = False,
) -> None:
    """Runs what is missing, one seed after another, and prints the tables."""
    wanted = budgets.split(",")
    for budget in wanted:
        look_up(BUDGETS, "budget", budget)
    for seed, budget, learner in () if print_only else itertools.product(seeds, wanted, learners):
        if budget != "1x10000" or learner in _LARGEST:
            measure(budget, learner, seed, out)
    runs = RECORDED.read()
    print(f"Printed on {describe()}")
    for budget in BUDGETS:
        if any(run[0] == budget for run in runs):
            print_budget(runs, budget)


if __name__ == "__main__":
    engine.start(main, keep_programs=False)
