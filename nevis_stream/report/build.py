"""The report on run directories: one page, with tables and figures in files of their own."""

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from markupsafe import Markup

from nevis_stream.analysis.answering import get_pool_name
from nevis_stream.analysis.points import describe_progress
from nevis_stream.analysis.runs import LeftOut, NothingToRead, Run, group_by_stream, read_runs
from nevis_stream.analysis.transfer_matrix import TransferMatrix, is_matrix, read_matrix
from nevis_stream.errors import BadInput, NevisStreamError
from nevis_stream.progress import SILENT, Progress, follow
from nevis_stream.report.exports import Files, write_figures, write_tables
from nevis_stream.report.glossary import EVALUATION_TERMS, TERMS
from nevis_stream.report.parts import PARTS, PARTS_ACROSS, Part
from nevis_stream.report.section import PageContents, Section
from nevis_stream.report.summaries import (
    Evaluation,
    Study,
    is_cache,
    is_study,
    read_evaluation,
    read_study,
)
from nevis_stream.report.templates import embed_pictures, read_resource, render_page
from nevis_stream.storage import make_directory
from nevis_stream.terminal import as_text

_PAGE = "report.html"
_IS_OTHER = (is_matrix, is_cache, is_study)  # of what is not a run directory
_SCRIPTS = ("sort.js", "curves.js")
T = TypeVar("T")


@dataclass(frozen=True)
class Report:
    """A report that was written.

    Attributes:
      page: the path of report.html.
      left_out: the paths that are left out: directories, and files of directories that are shown.
    """

    page: Path
    left_out: tuple[LeftOut, ...]

    @property
    def complete(self) -> bool:
        """Whether every file that exists could be read, and none contradicts another."""
        return not any(item.damaged for item in self.left_out)


@dataclass(frozen=True)
class Chapter:
    """A part of the page with its text; `anchor` is where the navigation leads."""

    anchor: str
    title: str
    html: Markup


def write_report(
    run_dirs: Iterable[str | Path],
    out: str | Path,
    figures: bool = False,
    progress: Progress = SILENT,
) -> Path:
    """Writes report.html and, next to it, each part's tables (NAME.csv, latex/NAME.tex).

    The page needs no network and no other file. Runs of different streams or protocols are in
    sections of their own; what cannot be used is listed with its reason.

    Args:
      run_dirs: run directories, finished or not, directories of transfer matrices, evaluation
        caches, and studies of evaluation methods.
      out: directory of the report; made if missing. Files of an earlier report are replaced or
        removed, others stay; one that somebody has changed since stays with a warning where this
        report has none of its name.
      figures: write the figures too (figures/NAME.png and .pdf).
      progress: is told the stages.

    Returns:
      The path of report.html; a warning lists the paths that are left out, with the reasons.

    Raises:
      BadInput: no run can be used (the message says why, path by path), or `out` is a file.
    """
    return make_report(run_dirs, out, figures, progress).page


def make_report(
    run_dirs: Iterable[str | Path],
    out: str | Path,
    figures: bool = False,
    progress: Progress = SILENT,
) -> Report:
    """As `write_report`, but also returns what is left out."""
    paths = [Path(run_dir) for run_dir in run_dirs]
    runs, left_out = read_runs(
        follow(
            progress,
            "read runs",
            [path for path in paths if not any(kind(path) for kind in _IS_OTHER)],
        )
    )
    matrices = _read_all(read_matrix, filter(is_matrix, paths), left_out)
    evaluations = _read_all(read_evaluation, filter(is_cache, paths), left_out)
    studies = _read_all(read_study, filter(is_study, paths), left_out)
    others = matrices, evaluations, studies
    if not runs and not any(others):
        reasons = "".join(f"\n  {item.path}: {item.reason}" for item in left_out)
        raise BadInput(f"no usable run for a report:{reasons or ' no run was given'}")
    out = Path(out)
    try:
        make_directory(out)
    except (FileExistsError, NotADirectoryError):
        raise BadInput(f"{out}: not a directory; give a directory for the report.") from None

    def write() -> Files:
        return _write_files(_gather(runs, *others), left_out, out, figures, progress)

    try:
        files = write()
    except (NevisStreamError, OSError):
        raise
    except Exception:
        # one run with unexpected content must not prevent the report on the others
        faults = {run: reason for run in runs if (reason := find_fault(run))}
        if not faults or (len(faults) == len(runs) and not any(others)):
            raise
        runs = [run for run in runs if run not in faults]
        left_out += [LeftOut(run.path, reason, damaged=True) for run, reason in faults.items()]
        files = write()
    changed = files.close()
    left_out += _list_unread(runs)
    partial = [
        LeftOut(run.path, describe_progress(run.ledger)) for run in runs if not run.ledger.complete
    ]
    for omitted, place in ((left_out, "report"), (partial, "points, the front and the regret")):
        if omitted:
            reasons = "".join(f"\n  {item.path}: {item.reason}" for item in omitted)
            warnings.warn(f"left out of the {place}:{reasons}", stacklevel=2)
    if changed:
        warnings.warn(
            f"{out}: files of an earlier report that were changed since are kept:"
            f" {', '.join(changed)}",
            stacklevel=2,
        )
    return Report(out / _PAGE, tuple(left_out))


def _list_unread(runs: Iterable[Run]) -> list[LeftOut]:
    """Returns the files of runs that reading has failed for so far, with the reasons."""
    return [
        LeftOut(run.path / name, reason, damaged=True)
        for run in runs
        for name, reason in sorted(run.unread.items())
    ]


def find_fault(run: Run) -> str:
    """Returns why no page can be made of a run alone; "" if one can."""
    try:
        contents = _gather([run], (), (), ())
        subjects = [(part, contents.sections[0]) for part in PARTS]
        for part, subject in [*subjects, *((part, contents) for part in PARTS_ACROSS)]:
            part.tables(subject)
            str(part.html(subject) or "").encode()
    except Exception as error:
        return f"its values cannot be shown: {type(error).__name__}: {str(error)[:200]}"
    return ""


def _gather(
    runs: Sequence[Run],
    matrices: Sequence[TransferMatrix],
    evaluations: Sequence[Evaluation],
    studies: Sequence[Study],
) -> PageContents:
    groups = group_by_stream(runs).values()
    sections = [Section(number, group) for number, group in enumerate(groups, start=1)]
    return PageContents(sections, matrices, evaluations, studies)


def _write_files(
    contents: PageContents,
    left_out: Sequence[LeftOut],
    out: Path,
    figures: bool,
    progress: Progress,
) -> Files:
    files = Files(out)
    write_tables(contents, files, progress)
    if figures:
        write_figures(contents, files, progress)
    page = embed_pictures(_render_page(contents, left_out, files.names, progress))
    files.write(_PAGE, as_text(page).encode())
    return files


def _read_all(read: Callable[[Path], T], paths: Iterable[Path], left_out: list[LeftOut]) -> list[T]:
    """Reads what can be read; the others go to `left_out` with the reason."""
    values = []
    for path in dict.fromkeys(paths):
        try:
            values.append(read(path))
        except BadInput as error:
            damaged = not isinstance(error, NothingToRead)
            left_out.append(LeftOut(path, str(error), damaged))
    return values


def _render_page(
    contents: PageContents, left_out: Sequence[LeftOut], written: Sequence[str], progress: Progress
) -> str:
    sections = contents.sections
    chapters = [(section, _make_chapters(section, PARTS, progress)) for section in sections]
    chapters_across = _make_chapters(contents, PARTS_ACROSS, progress)
    whole = [(contents, chapters_across)] if chapters_across else []
    # braces keep the names of one from clashing with another's
    script = "".join(f"{{\n{read_resource(name)}}}\n" for name in _SCRIPTS)
    return render_page(
        "page.html",
        script,
        chapters=[*whole, *chapters] if contents.answering else [*chapters, *whole],
        left_out=[*left_out, *_list_unread(run for section in sections for run in section.runs)],
        contents=_count_subjects(contents),
        sections=len(sections),
        answering=contents.answering,
        heading=_make_heading(contents),
        glossary=_select_terms(contents),
        written=sorted(written),
    )


def _name_subjects(contents: PageContents) -> str:
    """Returns the names of what the page is about: its streams, or their pools if all are adaptive,
    as these differ in their rules; without streams the caches, and without these the studies.
    """
    streams = [
        *(
            get_pool_name(section.runs[0]) if contents.answering else section.header.stream
            for section in contents.sections
        ),
        *(matrix.stream for matrix in contents.matrices),
    ]
    return ", ".join(
        dict.fromkeys(
            streams
            or [evaluation.name for evaluation in contents.evaluations]
            or [study.path.name for study in contents.studies]
        )
    )


def _make_heading(contents: PageContents) -> str:
    """Returns the page's heading."""
    names = _name_subjects(contents)
    if contents.sections or contents.matrices:
        what = "Rules compared" if contents.answering else "Error against training FLOPs"
        return f"{what} on {names}"
    if contents.evaluations:
        caches = "cache" if len(contents.evaluations) == 1 else "caches"
        return f"Dynamic evaluation on the {caches} {names}"
    return f"Methods of dynamic evaluation compared in {names}"


def _count_subjects(contents: PageContents) -> str:
    """Returns the numbers of runs, caches and studies as text; that of runs is left out where there
    are none but caches or studies.
    """
    runs = len({run.path for section in contents.sections for run in section.runs})
    counts = {"run": runs, "cache": len(contents.evaluations), "study": len(contents.studies)}
    others = contents.evaluations or contents.studies
    shown = [
        _format_count(n, what) for what, n in counts.items() if n or (what == "run" and not others)
    ]
    return ", ".join(shown)


def _select_terms(contents: PageContents) -> dict[str, str]:
    """Returns the terms of the page and their meaning."""
    if not contents.evaluations and not contents.studies:
        return TERMS
    if not contents.sections and not contents.matrices:
        return EVALUATION_TERMS
    budget = f"{TERMS['Budget']} In dynamic evaluation: {EVALUATION_TERMS['Budget']}"
    return TERMS | EVALUATION_TERMS | {"Budget": budget}


def _format_count(number: int, what: str) -> str:
    several = {"study": "studies"}.get(what, f"{what}s")
    return f"{number} {what if number == 1 else several}"


def _get_module_name(part: Any) -> str:
    return part.__name__.rpartition(".")[2]


def _make_chapters(
    section: Section | PageContents, parts: Sequence[Part], progress: Progress
) -> list[Chapter]:
    markups = [(part, part.html(section)) for part in follow(progress, "write the page", parts)]
    return [
        Chapter(
            f"{_get_module_name(part).replace('_', '-')}-of-{section.number}",
            part.TITLE,
            html,
        )
        for part, html in markups
        if html is not None
    ]
