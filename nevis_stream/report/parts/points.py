"""The points: a table, and the plane of mean error against training FLOPs with the Pareto front."""

import pandas as pd
from markupsafe import Markup

from nevis_stream.analysis import budgets
from nevis_stream.analysis import tables as analysis_tables
from nevis_stream.analysis.stand_ins import short_names
from nevis_stream.report import svg
from nevis_stream.report.pareto_plot import drawable, has_line, plane
from nevis_stream.report.section import Section
from nevis_stream.report.templates import render

TITLE = "Error against training FLOPs"


def html(section: Section) -> Markup:
    """Returns the plane, the table of points, and what each learner's budgets reach together."""
    drawn = [method for method in section.methods if drawable(method)]
    picture = svg.pictures(figures(section), section.number).get("points")
    lines = [method for method in section.methods if has_line(method)]
    undrawn = [method.group.label for method in section.methods if method not in (*drawn, *lines)]
    counts = {"drawn": len(drawn), "lines": len(lines)}
    markup = render("parts/points.html", section=section, plane=picture, undrawn=undrawn, **counts)
    return markup + _fronts(section)


def tables(section: Section) -> dict[str, pd.DataFrame]:
    """Returns `points` (every method's and every run's), `hypervolume` and `flops_to_reach` by
    learner.
    """
    learners = budgets.by_learner(section.methods)
    return {
        "points": analysis_tables.points(section.methods),
        "hypervolume": budgets.hypervolumes(learners),
        "flops_to_reach": budgets.reach_table(learners),
    }


def figures(section: Section) -> dict[str, svg.Drawing]:
    """Returns `points`: the plane; nothing where no method has a place in it."""
    if not any(map(drawable, section.methods)):
        return {}
    title = "Mean error against training FLOPs, one mark per method, with the Pareto front"
    caption = (
        f"Mark: mean over a method's n seeds (points.csv). Bars: {svg.OVER_SEEDS}. Solid lines: the"
        " front; hollow marks: dominated."
    )
    return {"points": svg.Drawing(title, lambda: plane(section.methods, section.styles), caption)}


def _fronts(section: Section) -> Markup:
    learners = budgets.by_learner(section.methods)
    if not learners:
        return Markup("")
    volumes = list(budgets.hypervolumes(learners).itertuples())
    reach = {
        (row.learner_a, row.learner_b): row for row in budgets.reach_table(learners).itertuples()
    }
    return render(
        "parts/fronts.html",
        number=section.number,
        volumes=volumes,
        learners=short_names(learners),
        reach=reach,
    )
