"""Draws the front of the learners on local25 from the recorded tables in RESULTS.md.

    python -m benchmarks.front_figure

Every table of learners in the sections "Learners on local25" and "The front on local25" gives points:
the mean error on the five meta-test tasks against the FLOPs of all phases, with the range over seeds.
Points on the front are filled, dominated ones hollow; of points in the same place the first is the
largest, so that all are visible. Writes docs/front.png.
"""  # noqa: E501

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from nevis_stream.analysis.pareto import pareto_front

ROOT = Path(__file__).resolve().parents[1]
NAMES = {
    "closed_form": "closed_form",
    "frontier": "frontier",
    "bhpo": "BHPO",
    "ft_dynamic": "FT-d",
    "ft_prev": "FT-prev",
    "ft_static": "FT-s",
    "indep": "Indep",
    "mt": "MT",
    "pt_ext": "PT (larger set)",
    "pt_ft": "PT+FT",
    "pt_isup": "PT",
    "pt_mt": "PT (many tasks)",
}
SECTIONS = ("Learners on local25", "The front on local25")
_ERRORS = ("error, 5 meta-test tasks", "error, meta-test")  # a column of one of these names
_BUDGETS = "_(tiny|small|medium|large|huge|giant|colossal)"
_NEAR = 9  # points of the figure (1/72 inch) between marks that hide each other
_ERROR = re.compile(r"([\d.]+) \(([\d.]+)–([\d.]+)\)")


@dataclass(frozen=True)
class Point:
    """A learner at one budget: mean error, its range over seeds, and FLOPs of all phases."""

    learner: str
    error: float
    low: float
    high: float
    flops: float


def points(text: str) -> list[Point]:
    """Returns the points of every table of learners in RESULTS.md, by rising cost."""
    results: list[Point] = []
    for section in SECTIONS:
        columns: list[str] = []
        for line in text.partition(f"\n## {section}\n")[2].partition("\n## ")[0].splitlines():
            cells = [cell.strip() for cell in line.strip("| ").split("|")]
            learner = re.sub(f"{_BUDGETS}$", "", cells[0])
            if cells[0] in ("learner", "runs") and set(_ERRORS) & set(cells):
                columns = cells
            elif columns and learner in NAMES:
                results.append(_point(learner, dict(zip(columns, cells, strict=True))))
            elif not line.startswith("|"):
                columns = []
    return sorted(results, key=lambda point: (point.flops, point.error))


def _point(learner: str, row: Mapping[str, str]) -> Point:
    text = next(row[name] for name in _ERRORS if name in row)
    error, low, high = map(float, _ERROR.match(text).groups())
    phases = [float(value) for name, value in row.items() if name.startswith("FLOPs ")]
    return Point(NAMES[learner], error, low, high, sum(phases) if phases else float(row["FLOPs"]))


def sizes(places: np.ndarray) -> list[int]:
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
    results = points((ROOT / "benchmarks" / "RESULTS.md").read_text())
    front = [results[i] for i in pareto_front([(p.error, p.flops) for p in results])]
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
    names = [name for name in NAMES.values() if any(p.learner == name for p in results)]
    styles = {
        name: (plt.get_cmap("tab20")(2 * number % 20 + number // 10), "o*sD^vPXd<>h"[number])
        for number, name in enumerate(names)
    }
    axes.set_ylim(min(p.low for p in results) - 0.01, max(p.high for p in results) + 0.01)
    axes.set_xlim(results[0].flops / 1.6, results[-1].flops * 1.6)
    figure.tight_layout(rect=(0, 0, 0.8, 1))
    pixels = axes.transData.transform([(p.flops, p.error) for p in results])
    for order, (point, size) in enumerate(
        zip(results, sizes(pixels * 72 / figure.dpi), strict=True)
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
    figure.savefig(ROOT / "docs" / "front.png")


if __name__ == "__main__":
    main()
