"""Task orders and stream variants side by side: the same judged tasks after other pasts."""

from typing import Any

import pandas as pd
from markupsafe import Markup

from nevis_stream.analysis.ablations import Ablation, Variant, compare_variants
from nevis_stream.report.section import PageContents
from nevis_stream.report.svg import Drawing
from nevis_stream.report.templates import render

TITLE = "Errors on variants and orders of the stream"


def html(contents: PageContents) -> Markup | None:
    """Returns a table for each method with runs of two streams or more that judge the same tasks;
    None if there is none.
    """
    compared = _compare(contents)
    if not compared:
        return None
    return render("parts/ablations.html", ablations=compared)


def tables(contents: PageContents) -> dict[str, pd.DataFrame]:
    """Returns `ablations`: one row per method and variant, with the published values."""
    rows = [
        _make_row(ablation, variant)
        for ablation in _compare(contents)
        for variant in ablation.variants
    ]
    return {"ablations": pd.DataFrame(rows)}


def figures(contents: PageContents) -> dict[str, Drawing]:
    """Returns none."""
    return {}


def _compare(contents: PageContents) -> list[Ablation]:
    runs = {run.path: run for section in contents.sections for run in section.runs}
    return compare_variants(list(runs.values()))


def _make_row(ablation: Ablation, variant: Variant) -> dict[str, Any]:
    row = {
        "method": ablation.label,
        "protocol": ablation.protocol,
        "variant": variant.name,
        "reference": ablation.reference,
    }
    row |= {name: getattr(variant, name) for name in ("runs", "draws", "seeds", "tasks", "judged")}
    row |= {"compared_tasks": len(ablation.compared)}
    for name in ("error", "whole_error", "paper_total"):
        row |= {name: getattr(variant, name).mean, f"{name}_std": getattr(variant, name).std}
    row |= {"difference": variant.difference}
    published = variant.published or {}
    return row | {
        f"published_{name}": published.get(name)
        for name in ("learner", "error", "std", "draws", "meta_train_tasks")
    }
