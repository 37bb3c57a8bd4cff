"""A hub of natural images on `local26` and `local25_hub`: does FT-d beat FT-prev once it precedes?

  python -m launch.data prepare --stream=local26
  python -m experiments.learner_studies.hub --out=runs/hub [--learners=closed_form,frontier] [--streams=local25_hub]
  python -m experiments.learner_studies.hub --print_only

The published FT-d owes its lead over FT-prev to tasks that follow ImageNet and Caltech256. `local25`
has no such hub. In `local25_hub`, tiny_imagenet stands in for ImageNet at 2011; in `local26` it is at
its own place, 2019. There are 36 runs: six learners, two streams and three seeds. The networks get one
trial of 2,400 steps a task, with the hyper-parameters of `1x2400` in paper_learners; `closed_form`
and `frontier` have the budget `medium`.

Every complete run is added to experiments/learner_studies/hub.jsonl and is not repeated; an interrupted run continues
in its run directory. The tables are printed from the file alone; what the hub changes on the
tasks after it is a comparison with the runs on `local25` in experiments/learner_studies/paper_learners.jsonl, which
have the same hyper-parameters and state of the engine.
"""  # noqa: E501

import itertools
from collections.abc import Sequence
from pathlib import Path

from nevis_stream.experiments import engine
from nevis_stream.experiments.learner_studies.recorded_runs import (
    RecordedRuns,
    Runs,
    print_differences,
    print_pairs,
    print_points,
    read_errors,
)
from nevis_stream.experiments.scripts import describe
from nevis_stream.streams.named_streams import list_stream_rows

STREAMS = ("local25_hub", "local26")
_CLOSED = {"budget": "medium"}
_NETWORKS = {
    "budget": "small",
    "search.trials": 1,
    "search.learning_rate": (0.1, 0.1),
    "search.label_smoothing": (0.1, 0.1),
    "train.steps": 2400,
    "train.validate_every": 600,
    "select.train_cap": 10000,
    "select.dev_cap": 5000,
}
_CHOOSING = _NETWORKS | {"select.margin": 4}  # as on record; paper_rule.py has the paper's rule
LEARNERS = {
    "closed_form": _CLOSED,
    "frontier": _CLOSED,
    "ft_prev": _NETWORKS,
    "ft_dynamic": _CHOOSING,
    "indep": _NETWORKS,
    "mt": _CHOOSING,
}
NATURAL = ("caltech101", "cifar10", "cifar100", "office_caltech", "pacs", "scenes15")
HUBS = ("imagenet_stand_in", "tiny_imagenet")
RECORDED = RecordedRuns(Path(__file__).with_name("hub.jsonl"), "stream")
PAPER = RecordedRuns(Path(__file__).with_name("paper_learners.jsonl"), "budget")


def group_tasks(stream: str) -> dict[str, list[str]]:
    """Returns the task ids of a stream in groups, by the name of the group."""
    rows = list_stream_rows(stream)[1]
    tasks = [row["task_id"] for row in rows]
    place = next(i for i, task in enumerate(tasks) if task in HUBS)
    return {
        "all tasks": tasks,
        "meta-test": [row["task_id"] for row in rows if row["meta_split"] == "test"],
        "after the hub": tasks[place + 1 :],
        "natural images after the hub": [
            row["task_id"] for row in rows[place + 1 :] if row["dataset_id"] in NATURAL
        ],
    }


def print_stream(runs: Runs, stream: str) -> None:
    """Prints the points of a stream, and the differences of every pair of learners."""
    names = [name for name in LEARNERS if any(run[:2] == (stream, name) for run in runs)]
    parts = {group: tasks for group, tasks in group_tasks(stream).items() if tasks}
    hub = next(task for task in parts["all tasks"] if task in HUBS)
    print_points(f"`{stream}`", runs, stream, names, {**parts, hub: [hub]})
    print_pairs(runs, stream, names, parts)


def print_change_by_hub(runs: Runs, without: Runs) -> None:
    """Prints how the errors after the hub of `local25_hub`, and their differences, are changed.

    Args:
      runs: on the streams with a hub.
      without: on `local25`, with the same hyper-parameters. A learner needs as many seeds on both.
    """
    group = "after the hub"
    tasks = group_tasks("local25_hub")[group]
    sides = {
        name: (
            read_errors(runs, "local25_hub", name, tasks),
            read_errors(without, "1x2400", name, tasks),
        )
        for name, values in LEARNERS.items()
        if values is not _CLOSED
    }
    sides = {name: (hub, none) for name, (hub, none) in sides.items() if hub.shape == none.shape}
    change = "with the hub − without"
    rows = [(f"{name}, {change}", group, hub, none) for name, (hub, none) in sides.items()]
    for first, second in itertools.combinations(sides, 2):
        (hub, none), (base_hub, base_none) = sides[second], sides[first]
        name = f"{second} − {first}"
        rows.append((f"{name}, without the hub", group, none, base_none))
        rows.append((f"{name}, {change}", group, hub - none, base_hub - base_none))
    print_differences(rows)


def main(
    out: Path = Path("runs/hub"),
    learners: Sequence[str] = tuple(LEARNERS),
    streams: Sequence[str] = STREAMS,
    seeds: Sequence[int] = (0, 1, 2),
    print_only: bool = False,
) -> None:
    """Runs what is missing, one seed after another, and prints the tables."""
    runs_wanted = () if print_only else itertools.product(seeds, learners, streams)
    for seed, learner, stream in runs_wanted:
        values = {**LEARNERS[learner], "stream": stream}
        run_dir = out / stream / learner / f"seed-{seed}"
        RECORDED.measure((stream, learner, seed), run_dir, values)
    runs = RECORDED.read()
    print(f"Printed on {describe()}")
    for stream in STREAMS:
        if any(run[0] == stream for run in runs):
            print_stream(runs, stream)
    print_change_by_hub(runs, PAPER.read())


if __name__ == "__main__":
    engine.start(main, keep_programs=False)
