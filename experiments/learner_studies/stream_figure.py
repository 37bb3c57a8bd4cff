"""Draws the stream of NEVIS'22 from the catalogue: Figure 2 and the left part of Figure 3.

    python -m experiments.learner_studies.stream_figure --out=docs/nevis22-stream.png

Prints what the paper says of them: the rank correlations of year and size, the share of tasks of
1,000 to 20,000 images, and the domains by year.
"""

from pathlib import Path

import matplotlib
import numpy as np
from scipy import stats

from nevis_stream.catalogue import read_carried_table
from nevis_stream.experiments import engine

matplotlib.use("Agg")
import matplotlib.pyplot as plt


def main(out: Path = Path("docs/nevis22-stream.png")) -> None:
    """Draws the figure and prints the numbers."""
    rows = read_carried_table("nevis22_tasks")
    year = np.asarray([int(row["year"]) for row in rows])
    size = np.asarray([int(row["size"]) for row in rows])
    years = np.unique(year)
    mean = np.asarray([size[year == each].mean() for each in years])
    domains = {
        each: {row["domain"] for row in rows if int(row["year"]) == each} for each in years.tolist()
    }
    names = sorted(set.union(*domains.values()), reverse=True)
    figure, (sizes, counts, present) = plt.subplots(1, 3, figsize=(13, 3.6), dpi=110)
    sizes.bar(years, mean, color="#8aa9c9", label="mean size of the year's tasks")
    sizes.plot(years, [size[year <= each].sum() for each in years], "k.-", label="images so far")
    sizes.set_yscale("log")
    counts.bar(years, [(year == each).sum() for each in years], color="#8aa9c9")
    present.scatter(
        *zip(*((y, names.index(d)) for y, found in domains.items() for d in found), strict=True),
        color="#333333",
        s=14,
    )
    present.set_yticks(range(len(names)), names, fontsize=7)
    for axes, title in zip(
        (sizes, counts, present), ("images", "tasks", "domains of the year's tasks"), strict=True
    ):
        axes.set_title(title, fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    sizes.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(out, metadata={"Software": None})
    print(f"{len(rows)} tasks of {len(years)} years, {size.sum():,} images")
    print(f"1,000 to 20,000 images: {((size >= 1e3) & (size <= 2e4)).mean():.2f} of the tasks")
    by_year = stats.spearmanr(years, [len(found) for found in domains.values()])
    for name, found in (
        ("year and size of a task", stats.spearmanr(year, size)),
        ("year and mean size", stats.spearmanr(years, mean)),
        ("year and number of domains", by_year),
    ):
        print(f"rank correlation of {name}: {found.statistic:.2f} (p = {found.pvalue:.1g})")


if __name__ == "__main__":
    engine.start(main, keep_programs=False)
