"""The run directories on the page, where they ran, and what their data were understood as."""

import pandas as pd
from markupsafe import Markup

from nevis_stream.report.run_files import collect_environment, collect_readings
from nevis_stream.report.section import Section
from nevis_stream.report.svg import Drawing
from nevis_stream.report.templates import render
from nevis_stream.terminal import as_text

TITLE = "Run directories and machines"


def html(section: Section) -> Markup:
    """Returns the run directories with their seeds and hashes, versions and devices, and what the
    files of data sets were understood as.
    """
    return render(
        "parts/runs.html",
        section=section,
        environment=collect_environment(section.runs),
        readings=collect_readings(section.runs),
    )


def tables(section: Section) -> dict[str, pd.DataFrame]:
    """Returns `runs`: every run's path, seed, config hash, how far it has come, and what should be
    known of it.
    """
    names = ("learner", "budget", "seed", "config_hash")
    progress = {run.path: text for run, text in section.unfinished}
    rows = [
        {"label": group.label}
        | {name: getattr(run.header, name) for name in names}
        | {
            "run": run.name,
            "path": as_text(str(run.path)),
            "status": progress.get(run.path, "finished"),
        }
        | {"schema": run.header.schema, "notes": "; ".join(run.notes)}
        for group in section.groups
        for run in group.runs
    ]
    return {"runs": pd.DataFrame(rows)}


def figures(section: Section) -> dict[str, Drawing]:
    """Returns none."""
    return {}
