"""The report: one page, and the tables and figures beside it, out of run directories."""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from nevis_stream.analysis.runs import LeftOut, group_by_stream, read_runs
from nevis_stream.errors import BadInput
from nevis_stream.report.exports import write_figures, write_tables
from nevis_stream.report.parts import PARTS
from nevis_stream.report.section import Section
from nevis_stream.report.templates import render, resource
from nevis_stream.storage import write_file

_SCRIPTS = ("sort.js", "curves.js")


@dataclass(frozen=True)
class Chapter:
    """A part of the page with its text; `anchor` is where the navigation leads."""

    anchor: str
    title: str
    html: Markup


def write_report(run_dirs: Iterable[str | Path], out: str | Path, figures: bool = False) -> Path:
    """Writes report.html, and beside it each part's tables (NAME.csv, latex/NAME.tex).

    The page needs no network and no other file. Runs of different streams or protocols stand in
    sections of their own; what cannot be used is listed with its reason.

    Args:
      run_dirs: run directories, finished or not.
      out: directory of the report; made if missing, its files replaced.
      figures: write the figures too (figures/NAME.png and .pdf).

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
    except (FileExistsError, NotADirectoryError):
        raise BadInput(f"{out}: not a directory; give a directory for the report.") from None
    written = write_tables(sections, out)
    if figures:
        written += write_figures(sections, out)
    page = out / "report.html"
    write_file(page, _page(sections, left_out, written).encode())
    return page


def _page(sections: Sequence[Section], left_out: Sequence[LeftOut], written: Sequence[str]) -> str:
    script = "".join(f"{{\n{resource(name)}}}\n" for name in _SCRIPTS)  # braces: names of one don't meet another's
    return render(
        "page.html",
        chapters=[(section, _chapters(section)) for section in sections],
        left_out=left_out,
        total_runs=len({run.path for section in sections for run in section.runs}),
        streams=", ".join(dict.fromkeys(section.header["stream"] for section in sections)),
        written=sorted(written),
        style=Markup(resource("style.css")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _chapters(section: Section) -> list[Chapter]:
    told = [(part, part.html(section)) for part in PARTS]
    return [
        Chapter(f"{part.__name__.rpartition('.')[2].replace('_', '-')}-of-{section.number}", part.TITLE, html)
        for part, html in told
        if html is not None
    ]
