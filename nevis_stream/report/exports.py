"""Files beside the page: every part's tables as csv and LaTeX, its figures as PNG and PDF."""

import io
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path

import matplotlib
import pandas as pd
from matplotlib.figure import Figure

from nevis_stream.report import palette, svg
from nevis_stream.report.across import Across
from nevis_stream.report.captions import caption
from nevis_stream.report.latex import latex_document, latex_table
from nevis_stream.report.parts import PARTS, PARTS_ACROSS
from nevis_stream.report.section import Section
from nevis_stream.storage import write_file

_IDENTITY = ("stream", "stream_digest", "protocol")
_DOTS_PER_INCH = 200
_LETTERS_PER_INCH = 15  # of a caption
_LINE = 0.16  # inches of one of its lines
_DOCUMENT = "all_tables"  # of all tables in LaTeX


def write_tables(across: Across, out: Path) -> list[str]:
    """Writes NAME.csv and latex/NAME.tex for each table that has rows; each row says which stream it is of.

    In csv files FLOPs that are sums are exact integers and errors have digits that read back equal; the LaTeX is rounded.
    latex/all_tables.tex is a document of all of them.

    Returns:
      The files' names, below `out`.
    """
    frames: dict[str, list[pd.DataFrame]] = {}
    for section, part in _each(across.sections):
        for name, frame in part.tables(section).items():
            if not frame.empty:
                frames.setdefault(name, []).append(_identified(frame, section))
    for part in PARTS_ACROSS:
        frames |= {name: [frame.astype(object)] for name, frame in part.tables(across).items() if not frame.empty}
    written = []
    for name, pieces in frames.items():
        frame = pd.concat(pieces, ignore_index=True)
        text = frame.to_csv(index=False, na_rep="NaN", lineterminator="\n")
        written += [_write(out, f"{name}.csv", text.encode())]
        written += [_write(out, f"latex/{name}.tex", latex_table(frame, name).encode())]
    return written + [_write(out, f"latex/{_DOCUMENT}.tex", latex_document(list(frames)).encode())]


def write_figures(across: Across, out: Path) -> list[str]:
    """Writes figures/NAME.png and .pdf for each figure with its caption, and the section's number where there is more than one.

    Returns:
      The files' names, below `out`.
    """
    written = []
    with palette.printed():
        found = [(section, part.figures(section)) for section, part in _each(across.sections)]
        found += [(across, part.figures(across)) for part in PARTS_ACROSS]
        for section, figures in found:
            for name, figure in figures.items():
                stem = f"figures/{name}" + (f"-{section.number}" if section is not across and len(across.sections) > 1 else "")
                written += [_write(out, f"{stem}.{form}", data) for form, data in _drawn(figure, caption(name)).items()]
    return written


def _each(sections: Sequence[Section]) -> Iterator[tuple]:
    return ((section, part) for section in sections for part in PARTS)


def _identified(frame: pd.DataFrame, section: Section) -> pd.DataFrame:
    identity = {name: section.header[name] for name in _IDENTITY if name not in frame}
    return pd.concat([pd.DataFrame(identity, index=frame.index), frame], axis=1).astype(object)


def _drawn(figure: Figure, words: str) -> dict[str, bytes]:
    """The figure's files, with its caption above it."""
    width, height = figure.get_size_inches()
    if words:
        lines = textwrap.fill(words, int(_LETTERS_PER_INCH * width))
        figure.set_size_inches(width, height + _LINE * (lines.count("\n") + 2))
        figure.suptitle(lines, x=0.01, size=8, color=palette.muted(), ha="left")
    forms = {}
    context = {"pdf.fonttype": 42}  # letters stay letters: a journal asks for it
    with matplotlib.rc_context(context), svg.any_script():
        for form, metadata in (("png", {"Software": None}), ("pdf", {"CreationDate": None})):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=form, dpi=_DOTS_PER_INCH, metadata=metadata)
            forms[form] = buffer.getvalue()
    return forms


def _write(out: Path, name: str, data: bytes) -> str:
    write_file(out / name, data)
    return name
