"""Differences between methods, with intervals over tasks and seeds."""

from collections.abc import Mapping, Sequence

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from nevis_stream.analysis import pairs
from nevis_stream.analysis.differences import Comparison
from nevis_stream.analysis.verdict import abbreviate_verdict, format_span, list_cautions
from nevis_stream.report import palette, svg
from nevis_stream.report.names import shorten
from nevis_stream.report.section import Section
from nevis_stream.report.styles import Style
from nevis_stream.report.templates import render

TITLE = "Differences in error between methods"
_ROW_HEIGHT = 0.42  # inches
_THICK = {"linewidth": 8, "alpha": 0.3, "solid_capstyle": "butt"}
_THIN = {"linewidth": 1.6, "marker": "|", "markersize": 9}
_FORMATS = {"span": format_span, "mark": abbreviate_verdict}


def html(section: Section) -> Markup | None:
    """Returns the forest plot and the table of all pairs; None for a single method."""
    if len(section.groups) < 2:
        return None
    compared, reasons = section.compute_once(_compare_pairs)
    return render(
        "parts/differences.html",
        number=section.number,
        picture=svg.render_pictures(figures(section), section.number).get("differences"),
        pairs=compared,
        against=section.reference_comparisons,
        reasons=reasons,
        cautions=dict.fromkeys(caution for pair in compared for caution in list_cautions(pair)),
        **_FORMATS,
    )


def tables(section: Section) -> dict[str, pd.DataFrame]:
    """Returns `pairs`: every pair of methods."""
    return {"pairs": pairs.make_table(section.compute_once(_compare_pairs)[0])}


def figures(section: Section) -> dict[str, svg.Drawing]:
    """Returns `differences`: every method against its reference."""
    against = section.reference_comparisons
    title = "Difference of the mean error to the reference, one row per method"
    caption = (
        "n: see pairs.csv. Line: 95% interval over tasks and seeds; pale bar: over seeds alone."
    )
    drawing = svg.Drawing(title, lambda: plot_forest(against, section.styles), caption)
    return {"differences": drawing} if against else {}


def _compare_pairs(section: Section) -> tuple[list[Comparison], list[str]]:
    return pairs.compare_pairs(section.groups)


def sort_by_estimate(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Returns comparisons of A with B, those first in which A's error is lowest against B's."""
    return sorted(comparisons, key=lambda comparison: comparison.over_tasks.estimate)


def plot_forest(comparisons: Sequence[Comparison], styles: Mapping[str, Style]) -> Figure:
    """Draws mean errors of A minus B in points with 95% intervals: a line over tasks and seeds, a
    pale bar over seeds alone.

    Args:
      comparisons: drawn from the top, the largest gain first.
      styles: by label.
    """
    shown = sort_by_estimate(comparisons)
    figure, axes = svg.make_plot(8.4, 1.1 + _ROW_HEIGHT * len(shown))
    axes.grid(False, axis="y")
    axes.axvline(0, color=palette.ink(), linewidth=1)
    for row, comparison in enumerate(shown):
        style = styles[comparison.a.label]
        colour = palette.series(style.colour)
        for interval, line in ((comparison.over_seeds, _THICK), (comparison.over_tasks, _THIN)):
            if interval.low == interval.low:
                axes.plot(
                    [100 * interval.low, 100 * interval.high], [row, row], color=colour, **line
                )
        axes.plot(
            100 * comparison.over_tasks.estimate,
            row,
            marker=style.marker,
            color=colour,
            markersize=7,
            linestyle="none",
        )
    names = [f"{shorten(pair.a.label)} − {shorten(pair.b.label)}" for pair in shown]
    axes.set_ylim(len(shown) - 0.4, -0.6)
    with svg.allow_any_script():
        axes.set_yticks(range(len(shown)), names, parse_math=False)
        axes.tick_params(axis="y", colors=palette.ink(), labelsize=9)
    axes.set_xlabel("difference in mean error, percentage points")
    return figure
