"""Files written with the page: tables as csv and LaTeX, figures as PNG and PDF; and the list of
them, so that the next report in the same directory can remove those that are out of date.
"""

import hashlib
import io
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

import matplotlib
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.text import Text

from nevis_stream.analysis.seeds import MARK
from nevis_stream.progress import Progress, follow
from nevis_stream.report import palette, svg
from nevis_stream.report.latex import MOST_ROWS, format_document, format_table
from nevis_stream.report.names import add_legend
from nevis_stream.report.parts import PARTS, PARTS_ACROSS
from nevis_stream.report.section import PageContents, Section
from nevis_stream.storage import append_line, write_file
from nevis_stream.storage.reading import read_bytes
from nevis_stream.storage.tables import encode_csv

MANIFEST = "files.sha256"  # the list of the files that a report wrote
_MANIFEST_LINE = re.compile(
    r"([0-9a-f]{64})  ((?:latex/|figures/)?[\w-]+\.(?:csv|tex|png|pdf|html))"
)


class Files:
    """Writes a report's files and notes each in the directory's list, in the form that `sha256sum
    --check` reads.

    Args:
      out: the report's directory.
    """

    def __init__(self, out: Path):
        self._out = out
        self._earlier = _read_manifest(out / MANIFEST)
        self._written: dict[str, str] = {}

    @property
    def names(self) -> list[str]:
        """The files that have been written, relative to the directory."""
        return list(self._written)

    def write(self, name: str, data: bytes) -> None:
        """Writes a file; it is listed first, so that a report which is killed leaves none that the
        next one does not know about.
        """
        digest = hashlib.sha256(data).hexdigest()
        append_line(self._out / MANIFEST, f"{digest}  {name}")
        write_file(self._out / name, data)
        self._written[name] = digest

    def close(self) -> list[str]:
        """Removes what earlier reports wrote and this one didn't, and lists what this one wrote.

        Returns:
          Earlier files that stay, because somebody has changed them since.
        """
        changed = []
        for name, digests in self._earlier.items():
            path = self._out / name
            if name in self._written or path.is_symlink() or not path.is_file():
                continue
            if hashlib.sha256(read_bytes(path)).hexdigest() in digests:
                path.unlink()
            else:
                changed.append(name)
        lines = [f"{digest}  {name}\n" for name, digest in sorted(self._written.items())]
        write_file(self._out / MANIFEST, "".join(lines).encode())
        return changed


def _read_manifest(path: Path) -> dict[str, set[str]]:
    """Returns the digests by name; lines of another form, or that name a file elsewhere, are
    ignored.
    """
    try:
        lines = read_bytes(path).decode().splitlines()
    except (OSError, ValueError):
        return {}
    digests: dict[str, set[str]] = {}
    for line in lines:
        if match := _MANIFEST_LINE.fullmatch(line):
            digests.setdefault(match[2], set()).add(match[1])
    return digests


_IDENTITY = ("stream", "stream_digest", "protocol")
_DOTS_PER_INCH = 200
_LETTERS_PER_INCH = 15  # of a caption
_LINE_HEIGHT = 0.16  # inches of one of its lines
_DOCUMENT = "all_tables"  # the LaTeX file that prints all tables


def write_tables(contents: PageContents, files: Files, progress: Progress) -> None:
    """Writes NAME.csv for each table that has rows, and latex/NAME.tex where they can be printed.

    In csv files FLOPs that are sums are exact integers and errors have digits that read back equal;
    the LaTeX is rounded. latex/all_tables.tex is a document of all of them.
    """
    frames: dict[str, list[pd.DataFrame]] = {}
    for section, part in follow(progress, "gather tables", _pair_with_parts(contents.sections)):
        for name, frame in part.tables(section).items():
            if not frame.empty:
                frames.setdefault(name, []).append(_add_identity(frame, section))
    for part in PARTS_ACROSS:
        frames |= {
            name: [frame.astype(object)]
            for name, frame in part.tables(contents).items()
            if not frame.empty
        }
    printed, notes = [], _list_notes(contents)
    for name, pieces in follow(progress, "write tables", list(frames.items())):
        frame = pd.concat(pieces, ignore_index=True)
        files.write(f"{name}.csv", encode_csv(frame))
        if len(frame) <= MOST_ROWS:
            files.write(f"latex/{name}.tex", format_table(frame, name, notes).encode())
            printed.append(name)
    files.write(f"latex/{_DOCUMENT}.tex", format_document(printed).encode())


def write_figures(contents: PageContents, files: Files, progress: Progress) -> None:
    """Writes figures/NAME.png and .pdf for each figure with its caption, NAME-1 and so on where
    there are several sections.
    """
    with palette.use_print_colours():
        for section, part in follow(
            progress,
            "figures",
            [*_pair_with_parts(contents.sections), *((contents, part) for part in PARTS_ACROSS)],
        ):
            number = (
                f"-{section.number}"
                if section is not contents and len(contents.sections) > 1
                else ""
            )
            for name, drawing in part.figures(section).items():
                figure = drawing.draw()
                add_legend(figure)
                words = " ".join(
                    [f"{drawing.title}.", drawing.caption, *_explain_marks(section, figure)]
                )
                for form, data in _render_figure(figure, words).items():
                    files.write(f"figures/{name}{number}.{form}", data)


def _explain_marks(section: Section | PageContents, figure: Figure) -> list[str]:
    """Returns the meaning of the marks at names in a figure; [] if none has one."""
    marked = any(MARK in text.get_text() for text in figure.findobj(Text))
    return [f"{note}." for note in _list_notes(section)] if marked else []


def _list_notes(section: Section | PageContents) -> list[str]:
    """Returns the notes on learners' names, of all sections for parts across streams."""
    sections = section.sections if isinstance(section, PageContents) else [section]
    return [note for part in sections for note in part.mark_notes]


def _pair_with_parts(sections: Sequence[Section]) -> list[tuple]:
    return [(section, part) for section in sections for part in PARTS]


def _add_identity(frame: pd.DataFrame, section: Section) -> pd.DataFrame:
    identity = {name: getattr(section.header, name) for name in _IDENTITY if name not in frame}
    return pd.concat([pd.DataFrame(identity, index=frame.index), frame], axis=1).astype(object)


def _render_figure(figure: Figure, words: str) -> dict[str, bytes]:
    """Returns the figure's files by ending, with `words` as the caption above it."""
    width, height = figure.get_size_inches()
    lines = textwrap.fill(words, int(_LETTERS_PER_INCH * width))
    taller = height + _LINE_HEIGHT * (lines.count("\n") + 2)
    figure.set_size_inches(width, taller)
    if figure.get_layout_engine() is None:
        _keep_at_foot(figure, height / taller)
    look = {"x": 0.01, "size": 8, "color": palette.muted(), "ha": "left"}
    figure.suptitle(lines, **look).set_parse_math(False)
    forms = {}
    context = {"pdf.fonttype": 42}  # letters stay letters: a journal asks for it
    with matplotlib.rc_context(context), svg.allow_any_script():
        for form, metadata in (("png", {"Software": None}), ("pdf", {"CreationDate": None})):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=form, dpi=_DOTS_PER_INCH, metadata=metadata)
            forms[form] = buffer.getvalue()
    return forms


def _keep_at_foot(figure: Figure, fraction: float) -> None:
    """Keeps what was placed by hand in the lower part of a figure that has become higher: this
    fraction of the height.
    """
    for axes in figure.axes:
        left, bottom, width, height = axes.get_position().bounds
        axes.set_position((left, fraction * bottom, width, fraction * height))
    for text in figure.texts:
        text.set_y(fraction * text.get_position()[1])
