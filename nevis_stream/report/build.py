"""The report: one page and four csv files out of run directories."""

import base64
import hashlib
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

import jinja2
from markupsafe import Markup

from nevis_stream.analysis.runs import group_by_stream, read_runs
from nevis_stream.errors import BadInput
from nevis_stream.report import notation
from nevis_stream.report.exports import write_exports, write_text
from nevis_stream.report.section import Section


def write_report(run_dirs: Iterable[str | Path], out: str | Path) -> Path:
    """Writes report.html, points.csv, per_task.csv, regret.csv and phases.csv.

    The page needs no network and no other file. Runs of different streams or protocols stand in
    sections of their own; what cannot be used is listed with its reason.

    Args:
      run_dirs: run directories, finished or not.
      out: directory of the report; made if missing, its files replaced.

    Returns:
      The path of report.html.

    Raises:
      BadInput: no run can be used (the message says why, path by path), or `out` is a file.
    """
    runs, left_out = read_runs(run_dirs)
    if not runs:
        reasons = "".join(f"\n  {item.path}: {item.reason}" for item in left_out)
        raise BadInput(f"no usable run for a report:{reasons or ' none was given'}")
    groups = group_by_stream(runs).values()
    sections = [Section(number, group) for number, group in enumerate(groups, start=1)]
    out = Path(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise BadInput(f"{out}: not a directory; give a directory for the report.") from None
    write_exports(sections, out)
    page = out / "report.html"
    write_text(page, _page(sections, left_out))
    return page


def _page(sections: list[Section], left_out: list) -> str:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("nevis_stream.report", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    script = _resource("sort.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template("page.html").render(
        sections=sections,
        left_out=left_out,
        total_runs=sum(len(section.runs) for section in sections),
        notation=notation,
        style=Markup(_resource("style.css")),
        script=Markup(script),
        script_hash=digest,
    )


def _resource(name: str) -> str:
    return (files("nevis_stream.report") / name).read_text(encoding="utf-8")
