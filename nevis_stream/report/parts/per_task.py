"""Every task's error by method, with the published values."""

import pandas as pd
from markupsafe import Markup

from nevis_stream.analysis import tables as analysis_tables
from nevis_stream.analysis.published_comparison import (
    PublishedComparison,
    compare_with_published,
)
from nevis_stream.report.run_files import read_overlaps
from nevis_stream.report.section import Section
from nevis_stream.report.svg import Drawing
from nevis_stream.report.templates import render
from nevis_stream.vocabulary import PROTOCOLS

TITLE = "Error of each task"


def html(section: Section) -> Markup:
    """Returns the table of errors, what is missing from it, and the comparison with published
    values.
    """
    cells = [(row.task_id, cell) for row in section.tasks for cell in row.cells]
    gaps = [f"{task}: {cell.reason}" for task, cell in cells if cell.gap not in ("", "partial")]
    leaks = [
        f"{row.task_id}: {row.leaked} of {row.n} images are exact copies of images in its train"
        " or dev split; its error is too low"
        for row in section.tasks
        if row.leaked
    ]
    own = [group.label for group in section.groups if not group.runs[0].published]
    rows = section.compute_once(_compare_with_published)
    learners = list(rows[0].published) if rows else []
    return render(
        "parts/per_task.html",
        section=section,
        gaps=gaps,
        leaks=leaks,
        overlaps=_describe_overlaps(section),
        beside=rows,
        own=own,
        learners=learners,
    )


def _describe_overlaps(section: Section) -> list[str]:
    split = PROTOCOLS[section.header.protocol].split
    return [
        f"{row['task_id']}: of {row['samples']} {split} images {row['exact']} are in the train or"
        f" dev split of {row['earlier']}, {row['near']} more look like one of it (the same"
        " perceptual hash, only a hint)"
        for row in read_overlaps(section.runs)
        if row["split"] == split
    ]


def tables(section: Section) -> dict[str, pd.DataFrame]:
    """Returns `per_task`, one row for every run, task and predicted split, and
    `beside_published`, one for every method and task that has a published value.
    """
    rows = [
        {
            "label": own.label,
            "order": row.order,
            "task_id": row.task_id,
            "published_task": row.published_task,
        }
        | {
            "seeds": own.error.n,
            "error": own.error.mean,
            "error_std": own.error.std,
            "difference": own.difference,
        }
        | {f"published_{learner}": error for learner, error in row.published.items()}
        | {
            name: getattr(row, name)
            for name in ("classes", "published_classes", "samples", "published_samples")
        }
        | {"other_data": row.data_difference}
        for row in section.compute_once(_compare_with_published)
        for own in row.own
    ]
    return {
        "per_task": analysis_tables.tabulate_tasks(section.runs),
        "beside_published": pd.DataFrame(rows),
    }


def _compare_with_published(section: Section) -> list[PublishedComparison]:
    return compare_with_published(section.groups)


def figures(section: Section) -> dict[str, Drawing]:
    """Returns none."""
    return {}
