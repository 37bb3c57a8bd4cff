"""Adaptive streams, compared with the static stream at equal labels."""

import math

import numpy as np
import pandas as pd
from markupsafe import Markup

from nevis_stream.analysis.answering import (
    CONTROL,
    AgainstControl,
    RuleResult,
    compare_with_control,
    summarise_rules,
)
from nevis_stream.report import palette, svg
from nevis_stream.report.names import to_letters
from nevis_stream.report.section import PageContents
from nevis_stream.report.styles import list_series_styles
from nevis_stream.report.templates import render

TITLE = "Adaptive streams: errors by rule and round"


def html(contents: PageContents) -> Markup | None:
    """Returns each comparison's curves and table; None without a finished run of such a stream."""
    comparisons = _summarise(contents)
    if not comparisons:
        return None
    pictures = svg.render_pictures(figures(contents))
    views = [
        (
            results,
            picture,
            list(zip(list_series_styles(len(results)), results, strict=True)),
            _make_rows(results),
        )
        for results, picture in zip(comparisons, pictures.values(), strict=True)
    ]
    return render("parts/answering.html", views=views)


def tables(contents: PageContents) -> dict[str, pd.DataFrame]:
    """Returns `answering`: a row for each pool, design, learner, rule and round."""
    rows = [
        {"pool": each.pool, "design": each.design, "learner": each.learner, "rule": each.rule}
        | {"round": number, "seeds": len(each.seeds), "error": float(np.mean(errors))}
        | _compare(each, results, number == len(each.errors))
        for results in _summarise(contents)
        for each in results
        for number, errors in enumerate(each.errors, start=1)
    ]
    return {"answering": pd.DataFrame(rows)}


def figures(contents: PageContents) -> dict[str, svg.Drawing]:
    """Returns `answering_a`, `_b`, … one for each pool, design and learner."""
    return {
        f"answering_{to_letters(place)}": svg.Drawing(
            f"Error by round of {results[0].learner} on {results[0].pool}",
            lambda results=results: _plot_errors(results),
            "Line: mean over n seeds (answering.csv); no bands.",
        )
        for place, results in enumerate(_summarise(contents))
    }


def _summarise(contents: PageContents) -> list[list[RuleResult]]:
    return summarise_rules([group for section in contents.sections for group in section.groups])


def _find_control(results: list[RuleResult]) -> RuleResult | None:
    return next((each for each in results if each.rule == CONTROL), None)


def _compare(each: RuleResult, results: list[RuleResult], is_last: bool) -> dict[str, float]:
    control = _find_control(results)
    names = ("difference", "low", "high")
    if control is None or each is control or not is_last:
        return dict.fromkeys(names, math.nan)
    compared = compare_with_control(each, control)
    return {name: getattr(compared, name) for name in names}


def _make_rows(
    results: list[RuleResult],
) -> list[tuple[RuleResult, float, float, AgainstControl | None]]:
    """Returns each rule with the errors after its first and last round, and its comparison with the
    control, None for the control itself or without one.
    """
    control = _find_control(results)
    return [
        (
            each,
            float(each.errors[0].mean()),
            float(each.errors[-1].mean()),
            None if control is None or each is control else compare_with_control(each, control),
        )
        for each in results
    ]


def _plot_errors(results: list[RuleResult]):
    figure, axes = svg.make_plot(8.8, 3.4)
    for style, each in zip(list_series_styles(len(results)), results, strict=True):
        rounds = np.arange(1, len(each.errors) + 1)
        axes.plot(
            rounds,
            each.errors.mean(axis=1),
            label=f"{each.rule} (n = {len(each.seeds)})",
            color=palette.series(style.colour),
            marker=style.marker,
            markersize=5,
            linewidth=1.8,
            dashes=style.dash or (None, None),
        )
    axes.set_xticks(range(1, max(len(each.errors) for each in results) + 1))
    axes.set_xlabel("round")
    axes.set_ylabel("mean error on the target")
    return figure
