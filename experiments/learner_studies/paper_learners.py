"""All learners of the paper on `local25`.

  python -m launch.data prepare --stream=local25
  python -m experiments.learner_studies.paper_learners --out=runs/paper [--learners=indep,mt] [--budgets=2x480]
  python -m experiments.learner_studies.paper_learners --print_only

Ten learners, three seeds, and the budgets 2x480 and 1x2400 (trials × steps); the largest, 1x10000,
for Indep, FT-prev, FT-d and PT-FT, which has the lowest error of the rest at 1x2400. BHPO searches
its large space with four trials that together take as many steps. The backbones of PT are
pre-trained here first; the shared data contain what they are pre-trained on.

Every complete run is added to experiments/learner_studies/paper_learners.jsonl and is not repeated; an interrupted run
continues in its run directory. The tables are printed from the file alone. Runs count together
only if they were made with the same state of the engine: start a new file after a change of
numbers (benchmarks/equal_results.py shows it).
"""  # noqa: E501

import sys
from pathlib import Path

from absl import flags

from nevis_stream.experiments.learner_studies.recorded_runs import (
    RecordedRuns,
    Runs,
    define_choices,
    define_seeds,
    print_differences,
    print_points,
)
from nevis_stream.experiments.scripts import call, describe
from nevis_stream.streams.named_streams import list_stream_rows

STREAM = "local25"
_ONE_TRIAL = {
    "search.trials": "1",
    "search.learning_rate": "(0.1,0.1)",
    "search.label_smoothing": "(0.1,0.1)",
    "select.train_cap": "10000",
    "select.dev_cap": "5000",
}
BUDGETS = {
    "2x480": {"search.trials": "2", "train.steps": "480", "train.validate_every": "120"},
    "1x2400": {**_ONE_TRIAL, "train.steps": "2400", "train.validate_every": "600"},
    "1x10000": {**_ONE_TRIAL, "train.steps": "10000", "train.validate_every": "2500"},
}
_LARGEST = ("indep", "ft_prev", "ft_dynamic", "pt_ft")
_OMNIGLOT = ("--config.stream=omniglot", "--tasks=omniglot", "--stand_in_for=ImageNet")
_PRETRAIN = {  # name of the file, and the flags of launch.pretrain
    "isup": (*_OMNIGLOT, "--config.train.steps=1920"),
    "ext": (*_OMNIGLOT, "--config.train.steps=1920", "--config.network.width=24"),
    "mt": (f"--config.stream={STREAM}", "--tasks=meta_train", "--config.train.steps=4800"),
}
LEARNERS = {  # name, and the weights that it starts from
    "indep": "",
    "ft_prev": "",
    "ft_dynamic": "",
    "mt": "",
    "ft_static": "",
    "bhpo": "",
    "pt_isup": "isup",
    "pt_ft": "isup",
    "pt_mt": "mt",
    "pt_ext": "ext",
}
RECORDED = RecordedRuns(Path(__file__).with_name("paper_learners.jsonl"), "budget")

OUT = flags.DEFINE_string("out", "runs/paper", "folder of the run directories")
NAMES = define_choices("learners", LEARNERS, "learners that are run")
RUN_BUDGETS = define_choices("budgets", BUDGETS, "budgets that are run", ("2x480", "1x2400"))
SEEDS = define_seeds()
PRINT_ONLY = flags.DEFINE_bool("print_only", False, "print the tables, run nothing")


def make_settings(budget: str, learner: str) -> dict[str, str]:
    """Returns the values of the config, by dotted name."""
    values = {"budget": "small", **BUDGETS[budget]}
    if learner == "bhpo":  # four trials share the steps of all trials
        steps = int(values["search.trials"]) * int(values["train.steps"]) // 4
        values = {"budget": "small", "search.trials": "4", "train.steps": str(steps)}
        values |= {"train.validate_every": str(steps // 4)}
    return values


def prepare_weights(name: str, folder: Path) -> Path:
    """Returns the file of a backbone; pre-trains it, or continues, if it is not finished."""
    file = folder / f"{name}.safetensors"
    command = [sys.executable, "-m", "launch.pretrain", "--config=indep", "--config.budget=small"]
    command += ["--config.search.trials=2", *_PRETRAIN[name], f"--out={file}"]
    call(command)
    return file


def measure(budget: str, learner: str, seed: int, folder: Path) -> None:
    """Runs a learner, unless it is on record; pre-trains the weights that it starts from."""
    run = budget, learner, seed
    if not RECORDED.has(run):
        folder.mkdir(parents=True, exist_ok=True)
        values: dict[str, object] = {**make_settings(budget, learner), "stream": STREAM}
        if LEARNERS[learner]:
            values["pretrained.path"] = prepare_weights(LEARNERS[learner], folder)
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
    print_differences(runs, budget, names, groups)


def main(_) -> None:
    """Runs what is missing, one seed after another, and prints the tables."""
    for seed in () if PRINT_ONLY.value else SEEDS.value:
        for budget in RUN_BUDGETS.value:
            for learner in NAMES.value:
                if budget != "1x10000" or learner in _LARGEST:
                    measure(budget, learner, int(seed), Path(OUT.value))
    runs = RECORDED.read()
    print(f"Printed on {describe()}")
    for budget in BUDGETS:
        if any(run[0] == budget for run in runs):
            print_budget(runs, budget)


if __name__ == "__main__":
    from nevis_stream.launch import entry

    entry.start(main)
