"""Draws the front of the learners on local25 from the tables in RESULTS.md.

    python -m benchmarks.front_figure

Every table of learners under "Learners on local25" gives points: the mean error on the five
meta-test tasks against the FLOPs of all phases, with the range over seeds. Writes docs/front.png.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parents[1]
NAMES = {
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
    """Returns the points of every table of learners in a section of RESULTS.md."""
    results, columns = [], []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split("|")]
        if cells[0] == "learner" and "error, 5 meta-test tasks" in cells:
            columns = cells
        elif columns and cells[0] in NAMES:
            row = dict(zip(columns, cells, strict=True))
            error, low, high = map(float, _ERROR.match(row["error, 5 meta-test tasks"]).groups())
            flops = sum(float(value) for name, value in row.items() if name.startswith("FLOPs "))
            results.append(Point(NAMES[cells[0]], error, low, high, flops))
        elif not line.startswith("|"):
            columns = []
    return results


def main() -> None:
    """Draws the figure."""
    text = (ROOT / "benchmarks" / "RESULTS.md").read_text()
    section = text.partition("## Learners on local25")[2].partition("\n## ")[0]
    results = sorted(points(section), key=lambda point: point.flops)
    best, front = float("inf"), []
    for point in results:
        if point.error < best:
            best = point.error
            front.append(point)
    figure, axes = plt.subplots(figsize=(8, 4.2), dpi=150)
    axes.step(
        [point.flops for point in front] + [results[-1].flops * 1.6],
        [point.error for point in front] + [front[-1].error],
        where="post",
        color="#8a8a8a",
        linewidth=1,
        label="Pareto front",
    )
    for number, name in enumerate(sorted({point.learner for point in results})):
        own = [point for point in results if point.learner == name]
        flops, errors = [point.flops for point in own], [point.error for point in own]
        colour, marker = plt.get_cmap("tab10")(number), "osD^vPXd<>"[number]
        ranges = [[point.low for point in own], [point.high for point in own]]
        axes.vlines(flops, *ranges, color=colour, linewidth=1)
        axes.plot(flops, errors, marker, color=colour, markersize=6, linestyle="", label=name)
    axes.set_xscale("log")
    axes.set_xlabel("FLOPs of the whole stream, all phases")
    axes.set_ylabel("mean error on the meta-test tasks")
    axes.set_title("local25: 30 real tasks, mean and range over seeds", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1), fontsize=9)
    figure.tight_layout()
    figure.savefig(ROOT / "docs" / "front.png")


if __name__ == "__main__":
    main()
