"""Findings of NEVIS'22 that the recorded runs on `local25` decide without another run.

    python -m experiments.learner_studies.from_records

Prints tables from paper_learners.jsonl: differences at equal compute, early and late in the stream,
by domain, size and resolution of the data sets, and of second meetings with a data set from first
ones. Learners with a margin of four standard errors (`ft_dynamic`, `ft_static`, `mt`, `pt_ft`) are
not the paper's.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import stats

from nevis_stream.experiments import engine
from nevis_stream.experiments.learner_studies.paper_settings import STREAM
from nevis_stream.experiments.learner_studies.recorded_runs import (
    RecordedRuns,
    print_differences,
    read_cost,
    read_errors,
    summarise_errors,
)
from nevis_stream.streams.named_streams import list_stream_rows

RECORDED = RecordedRuns(Path(__file__).with_name("paper_learners.jsonl"), "budget")
ROWS = list_stream_rows(STREAM)[1]
TASKS = [row["task_id"] for row in ROWS]
# by the number of training images, and the sides of the images, in the manifest of the shared files
FEW = (
    "brodatz",
    "caltech101",
    "umist",
    "uiuc_cars",
    "scenes15",
    "office_caltech",
    "pacs",
    "covid19_xray",
)  # noqa: E501
MANY = ("mnist", "fashion_mnist", "mnist_rot")
LARGE = (
    *("brodatz", "mpeg7", "caltech101", "uiuc_cars", "scenes15", "voc2007", "chars74k"),
    *("office_caltech", "pacs", "covid19_xray"),
)
REPEATS = [row["task_id"] for row in ROWS if row["task_id"] == f"{row['dataset_id']}_2"]
Points = dict[tuple[str, str], np.ndarray]


def choose(is_meant: Callable[[dict], bool]) -> np.ndarray:
    """Returns the places of the tasks whose rows are meant."""
    return np.asarray([place for place, row in enumerate(ROWS) if is_meant(row)])


SLICES = {
    "less than 1,000 images": choose(lambda row: row["dataset_id"] in FEW),
    "1,000 to 9,999": choose(lambda row: row["dataset_id"] not in (*FEW, *MANY)),
    "10,000 and more": choose(lambda row: row["dataset_id"] in MANY),
    "domain ocr": choose(lambda row: row["domain"] == "ocr"),
    "domain object": choose(lambda row: row["domain"] == "object"),
    "at most 32 pixels": choose(lambda row: row["dataset_id"] not in LARGE),
    "larger images": choose(lambda row: row["dataset_id"] in LARGE),
}


def print_pairs(title: str, points: Points, costs: dict, pairs) -> None:
    """Prints differences of points over all tasks, each with the FLOPs of both."""
    print(f"\n**{title}**")
    names = {key: f"{key[1]} {key[0]} ({cost:.3g})" for key, cost in costs.items()}
    print_differences(
        (f"{names[a]} − {names[b]}", "all tasks", points[a], points[b]) for a, b in pairs
    )


def spread_over_tasks(values: np.ndarray) -> str:
    """Returns the mean of values of tasks with the half-width of its 95% interval over tasks."""
    half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / len(values) ** 0.5
    return f"{values.mean():+.4f} ± {half:.4f}"


def print_halves(points: Points, pairs) -> None:
    """Prints differences on the first and the last half, and between these (Welch's t)."""
    half = len(TASKS) // 2
    print("\n**Early and late in the stream**\n")
    rows = []
    for a, b in pairs:
        by_task = points[a].mean(axis=1) - points[b].mean(axis=1)
        early, late = by_task[:half], by_task[half:]
        test = stats.ttest_ind(late, early, equal_var=False).confidence_interval()
        change = f"{late.mean() - early.mean():+.4f} ({test.low:+.4f} to {test.high:+.4f})"
        name = f"{a[1]} − {b[1]}, {a[0]}"
        rows.append([name, spread_over_tasks(early), spread_over_tasks(late), change])
    engine.print_table("difference | first 15 tasks: | last 15: | late − early:", rows)


def print_slopes(points: Points, names) -> None:
    """Prints how the difference from indep changes by task in the second half of the stream."""
    half = len(TASKS) // 2
    print("\n**Change by task over tasks 16 to 30**\n")
    rows = []
    for budget, name in names:
        by_task = points[budget, name].mean(axis=1) - points[budget, "indep"].mean(axis=1)
        fit = stats.linregress(np.arange(half), by_task[half:])
        reach = stats.t.ppf(0.975, half - 2) * fit.stderr
        rows.append([f"{name}, {budget}", f"{fit.slope:+.4f} ± {reach:.4f}"])
    engine.print_table("learner − indep | slope:", rows)


def print_slices(points: Points, pairs) -> None:
    """Prints differences on the slices, and indep's error there."""
    print("\n**By size, domain and resolution**")
    print_differences(
        (f"{a[1]} − {b[1]}, {a[0]}", group, points[a][places], points[b][places])
        for a, b in pairs
        for group, places in SLICES.items()
    )
    print()
    errors = points["1x10000", "indep"]
    rows = ([group, summarise_errors(errors[places])] for group, places in SLICES.items())
    engine.print_table("indep, 1x10000 | error:", rows)


def print_repeats(points: Points, names) -> None:
    """Prints how much higher the error is at the second meeting with a data set."""
    second = [TASKS.index(name) for name in REPEATS]
    first = [TASKS.index(name.removesuffix("_2")) for name in REPEATS]
    print("\n**The second meeting with a data set minus the first**")
    print_differences(
        (f"{key[1]}, {key[0]}", "repeats", points[key][second], points[key][first]) for key in names
    )


def main() -> None:
    """Prints all tables."""
    runs = RECORDED.read()
    keys = list(dict.fromkeys(run[:2] for run in runs))
    points = {key: read_errors(runs, *key, TASKS) for key in keys}
    costs = {key: read_cost(runs, *key) for key in keys}
    short, middle, long = "2x480", "1x2400", "1x10000"
    cheaper = [(long, name) for name in ("ft_dynamic", "ft_prev", "indep")]
    print_pairs("At equal compute", points, costs, [((middle, "mt"), other) for other in cheaper])
    pairs = [((middle, "ft_static"), (middle, name)) for name in ("ft_dynamic", "ft_prev")]
    print_pairs("The cost of FT-s", points, costs, pairs)
    learners = [(middle, n) for n in ("ft_prev", "ft_static", "ft_dynamic", "mt", "pt_ft")]
    learners += [(middle, "pt_isup"), (middle, "pt_ext"), (long, "ft_prev"), (long, "ft_dynamic")]
    pairs = [(key, (key[0], "indep")) for key in learners]
    pairs += [
        ((middle, "ft_static"), (middle, "pt_isup")),
        ((middle, "ft_prev"), (middle, "pt_ext")),
    ]
    print_halves(points, pairs)
    print_slopes(points, learners)
    print_slices(points, [((b, "ft_dynamic"), (b, "indep")) for b in (short, long)])
    print_repeats(points, [(middle, "indep"), *learners[:4]])


if __name__ == "__main__":
    engine.start(main, keep_programs=False)
