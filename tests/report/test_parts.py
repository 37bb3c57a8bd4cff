"""Every part: what it offers, that its names are unique, and that figures can be exported in
colours that print.
"""

import inspect
import re

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from nevis_stream.analysis.runs import read_runs
from nevis_stream.analysis.transfer_matrix import read_matrix
from nevis_stream.report import exports, palette, svg
from nevis_stream.report.build import write_report
from nevis_stream.report.latex import PRINTED_COLUMNS
from nevis_stream.report.parts import PARTS, PARTS_ACROSS
from nevis_stream.report.parts.learning_curves import find_lowest
from nevis_stream.report.section import PageContents, Section
from tests.analysis.test_transfer_matrix import write
from tests.report.page_reader import Page
from tests.report.synthetic import SyntheticRun

RUN = SyntheticRun(learner="Indep", repeats=True)


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    root = tmp_path_factory.mktemp("parts")
    runs = [
        run.but(seed=seed) for run in (RUN, RUN.but(learner="FT-d", skill=0.2)) for seed in (0, 1)
    ]
    return [run.write(root / str(i)) for i, run in enumerate(runs)]


@pytest.fixture
def section(paths):
    return Section(1, read_runs(paths)[0])


@pytest.fixture
def contents(section, tmp_path):
    """What parts across streams take, with two transfer matrices."""
    return PageContents([section], [read_matrix(write(tmp_path / name)) for name in "ab"])


@pytest.mark.parametrize(
    "part", [*PARTS, *PARTS_ACROSS], ids=lambda part: part.__name__.rpartition(".")[2]
)
def test_a_part_is_a_title_and_three_functions(part, section, contents):
    subject = contents if part in PARTS_ACROSS else section
    public = {
        name
        for name, value in vars(part).items()
        if not name.startswith("_")
        and (inspect.isfunction(value) and value.__module__ == part.__name__ or name.isupper())
    }
    assert {"TITLE", "html", "tables", "figures"} <= public
    assert all(frame.columns.is_unique for frame in part.tables(subject).values())
    for drawing in part.figures(subject).values():
        assert drawing.title and isinstance(drawing.draw(), Figure)
        words = drawing.caption
        assert (
            not words or re.search(r"\bn\b", words) and re.search("[Bb]ands|Bars|interval", words)
        )


def test_no_two_parts_write_the_same_file(section, contents):
    parts = [*((part, section) for part in PARTS), *((part, contents) for part in PARTS_ACROSS)]
    for files in (
        [name for part, subject in parts for name in part.tables(subject)],
        [name for part, subject in parts for name in part.figures(subject)],
    ):
        assert len(files) == len(set(files))
        assert all(re.fullmatch(r"[a-z_]+", name) for name in files)


def test_the_columns_that_latex_prints_are_those_of_the_tables(section, contents):
    parts = [*((part, section) for part in PARTS), *((part, contents) for part in PARTS_ACROSS)]
    tables = {k: v for part, subject in parts for k, v in part.tables(subject).items() if len(v)}
    assert {"points", "forward_transfer", "runs", "transfer_matrix"} <= set(tables)
    for name in PRINTED_COLUMNS.keys() & tables.keys():
        assert set(PRINTED_COLUMNS[name]) <= set(tables[name]), name


def test_the_navigation_leads_to_every_part(paths, tmp_path):
    page = Page(write_report(paths, tmp_path))
    targets = [a["href"][1:] for tag, a in page.tags if tag == "a"]
    assert set(targets) <= set(page.ids)
    shown = [a["id"] for tag, a in page.tags if tag == "section" and a.get("class") == "part"]
    assert shown and set(shown) <= set(targets)


def test_printed_figures_hold_no_stand_in(section):
    drawings = [drawing for part in PARTS for drawing in part.figures(section).values()]
    stand_ins = {palette.ink(), palette.muted(), palette.line(), palette.series(1)}
    assert {to_hex(c) for drawing in drawings for c in colours(drawing.draw())} & stand_ins
    with palette.use_print_colours():
        for drawing in drawings:
            held = {to_hex(colour) for colour in colours(drawing.draw())}
            assert not [colour for colour in held if colour.startswith("#0101")], drawing.title


@pytest.mark.slow
def test_every_figure_of_the_page_is_exported_and_no_other(paths, tmp_path, monkeypatch):
    monkeypatch.setattr(exports, "_DOTS_PER_INCH", 20)  # quick
    related = RUN.but(learner="ft_dynamic", start="related", mistakes=True)
    other = related.but(digest="f" * 16, seed=1, tasks=8)
    matrices = [write(tmp_path / f"matrix{i}") for i in range(2)]
    more = [
        run.write(tmp_path / str(i))
        for i, run in enumerate((related, other, RUN.but(**{"digest": "f" * 16, "tasks": 8})))
    ]
    page = Page(write_report([paths[0], *more, *matrices], tmp_path / "out", figures=True))
    shown = {
        attributes["data-figure"] for _, attributes in page.tags if "data-figure" in attributes
    }
    exported = {path.stem for path in (tmp_path / "out" / "figures").glob("*.png")}
    assert shown == exported == {path.stem for path in (tmp_path / "out" / "figures").glob("*.pdf")}
    assert exported >= {
        "points-1",
        "curves-2",
        "samples_a-1",
        "samples_b-2",
        "finetuning_depths_a-2",
        "transfer_matrix_b",
    }
    frames = [
        (tag, attributes)
        for tag, attributes in page.tags
        if tag == "svg" and attributes.get("class") == "plot"
    ]
    assert len(frames) == len(
        {name for name in shown if not name.startswith(("curves", "samples"))}
    )


def colours(figure):
    for artist in figure.findobj():
        for name in ("get_color", "get_facecolor", "get_edgecolor", "get_markerfacecolor"):
            result = getattr(artist, name, list)()
            if isinstance(result, str):
                yield result if result != "none" else "#ffffff"
            elif np.ndim(result) == 2:
                yield from result
            elif len(result):
                yield result


def test_a_caption_hides_nothing_of_a_figure_that_was_laid_out_by_hand():
    figure = svg.make_figure(4, 2, layout=None)
    axes, text = figure.add_axes((0, 0, 1, 0.9)), figure.text(0, 0.98, "heading", va="top")
    exports._render_figure(figure, "Many words of a caption. " * 9)
    assert axes.get_window_extent().height == pytest.approx(180)
    assert text.get_window_extent().y1 <= figure._suptitle.get_window_extent().y0


def test_learning_curves_name_all_that_end_lowest():
    ends = {"a": 0.2, "b": 0.10004, "c": 0.1}
    assert find_lowest(ends) == "lowest at the end 0.100, a tie: b; c"
    assert find_lowest({**ends, "d": 0.0}) == "lowest at the end 0.00: d"
    assert find_lowest(dict.fromkeys("abcd", 0.25)) == "lowest at the end 0.250, a tie: 4 runs"
