"""Draws the front of the learners on local25 from front.jsonl and paper_learners.jsonl.

    python -m experiments.learner_studies.front_figure

Each learner at each budget is a point: the mean error on the five meta-test tasks against the FLOPs
of all phases, with the range over seeds. Points on the front are filled, dominated ones hollow; of
points in the same place the first is the largest, so that all are visible. Writes docs/front.png.
"""

from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from nevis_stream.analysis.pareto import find_pareto_front
from nevis_stream.experiments import engine
from nevis_stream.experiments.learner_studies.recorded_runs import (
    RecordedRuns,
    read_cost,
    read_errors,
)
from nevis_stream.streams.named_streams import list_stream_rows

FILES = [Path(__file__).with_name(name) for name in ("front.jsonl", "paper_learners.jsonl")]
LEARNERS = (
    "closed_form",
    "frontier",
    "bhpo",
    "ft_dynamic",
    "ft_prev",
    "ft_static",
    "indep",
    "mt",
    "pt_ext",
    "pt_ft",
    "pt_isup",
    "pt_mt",
)
_NEAR = 9  # points of the figure (1/72 inch) between marks that hide each other


@dataclass(frozen=True)
class Point:
    """A learner at one budget: mean error, its range over seeds, and FLOPs of all phases."""

    learner: str
    error: float
    low: float
    high: float
    flops: float


def read_points() -> list[Point]:
    """Returns the point of every learner at every budget on record, by rising cost."""
    judged = [
        row["task_id"] for row in list_stream_rows("local25")[1] if row["meta_split"] == "test"
    ]
    results: list[Point] = []
    for file in FILES:
        runs = RecordedRuns(file, "budget").read()
        for budget, learner in {run[:2] for run in runs}:
            seeds = read_errors(runs, budget, learner, judged).mean(axis=0)
            flops = read_cost(runs, budget, learner)
            results.append(Point(learner, seeds.mean(), seeds.min(), seeds.max(), flops))
    return sorted(results, key=lambda point: (point.flops, point.error))


def choose_sizes(places: np.ndarray) -> list[int]:
    """Returns the diameters of marks: those that later ones would hide are larger.

    Args:
      places: float[n, 2], in points of the figure, in the order in which they are drawn.
    """
    return [
        6 + 4 * int((np.abs(places[i + 1 :] - place).max(axis=1, initial=0) < _NEAR).sum())
        for i, place in enumerate(places)
    ]


def main() -> None:
    """Draws the figure."""
    results = read_points()
    front = [results[i] for i in find_pareto_front([(p.error, p.flops) for p in results])]
    figure, axes = plt.subplots(figsize=(8, 4.6), dpi=150)
    axes.set_xscale("log")
    axes.set_xlabel("FLOPs of the whole stream, all phases")
    axes.set_ylabel("mean error on the meta-test tasks")
    axes.set_title("local25: 30 real tasks, mean and range over seeds", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.step(
        [point.flops for point in front] + [results[-1].flops * 1.6],
        [point.error for point in front] + [front[-1].error],
        where="post",
        color="#8a8a8a",
        linewidth=1,
        zorder=1,
        label="Pareto front",
    )
    names = [name for name in LEARNERS if any(p.learner == name for p in results)]
    styles = {
        name: (plt.get_cmap("tab20")(2 * number % 20 + number // 10), "o*sD^vPXd<>h"[number])
        for number, name in enumerate(names)
    }
    axes.set_ylim(min(p.low for p in results) - 0.01, max(p.high for p in results) + 0.01)
    axes.set_xlim(results[0].flops / 1.6, results[-1].flops * 1.6)
    figure.tight_layout(rect=(0, 0, 0.8, 1))
    pixels = axes.transData.transform([(p.flops, p.error) for p in results])
    for order, (point, size) in enumerate(
        zip(results, choose_sizes(pixels * 72 / figure.dpi), strict=True)
    ):
        colour, marker = styles[point.learner]
        axes.vlines(point.flops, point.low, point.high, color=colour, linewidth=1, zorder=2)
        axes.plot(
            point.flops,
            point.error,
            marker,
            color=colour,
            markerfacecolor=colour if point in front else "white",
            markersize=size,
            zorder=3 + order,
        )
    for name, (colour, marker) in styles.items():
        axes.plot([], [], marker, color=colour, markersize=6, linestyle="", label=name)
    axes.plot(
        [], [], "o", color="#555555", markerfacecolor="white", linestyle="", label="dominated"
    )
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1), fontsize=9)
    figure.savefig(Path(__file__).resolve().parents[2] / "docs" / "front.png")


if __name__ == "__main__":
    engine.start(main, keep_programs=False)
