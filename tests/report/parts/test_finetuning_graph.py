"""The part of the fine-tuning graph: its tables are the analysis's, names do not meet, odd runs
have a sentence.
"""

import pytest

from nevis_stream.analysis.finetuning import Node, build_graph
from nevis_stream.analysis.runs import read_runs
from nevis_stream.report import svg
from nevis_stream.report.build import write_report
from nevis_stream.report.names import add_legend
from nevis_stream.report.parts import finetuning_graph as part
from nevis_stream.report.section import Section
from nevis_stream.report.styles import assign_domain_styles
from tests.report.page_reader import Page
from tests.report.synthetic import SyntheticRun

RUN = SyntheticRun(learner="Indep", tasks=12, meta_test=3)


def written(tmp_path, *runs):
    return [run.write(tmp_path / str(i)) for i, run in enumerate(runs)]


@pytest.mark.usefixtures("undrawn")
def test_the_page_tells_every_source_and_in_how_many_seeds_it_is_the_same(tmp_path):
    related = RUN.but(learner="FT-d", start="related")
    paths = written(
        tmp_path, RUN, related, related.but(seed=1), RUN.but(learner="FT-prev", start="previous")
    )
    page = Page(write_report(paths, tmp_path / "out"))
    runs = read_runs(paths)[0]
    first, second = (build_graph(run.ledger) for run in runs[1:3])
    assert [text for text, _ in page.column("finetuning-1-1", "Started from")] == [
        node.source for node in first
    ]
    same = [1 + (a.source == b.source) for a, b in zip(first, second, strict=True)]
    assert [text for text, _ in page.column("finetuning-1-1", "Same source")] == [
        f"{count} of 2" for count in same
    ]
    assert "11 fine-tunings: task_001 → task_002" in page.text
    assert "No graph: Indep · small starts every task from random." in page.text
    expected = {f"finetuning_{kind}_{letter}" for kind in ("graph", "depths") for letter in "ab"}
    assert set(part.figures(Section(1, runs))) == expected


def test_without_any_fine_tuning_the_part_is_left_out(tmp_path):
    section = Section(1, read_runs(written(tmp_path, RUN))[0])
    assert part.html(section) is None and part.figures(section) == {}


@pytest.mark.parametrize("events", [0, 1, 3])
def test_unfinished_runs_have_the_graph_so_far(tmp_path, events):
    section = Section(
        1,
        read_runs(written(tmp_path, RUN.but(learner="FT-prev", start="previous", events=events)))[
            0
        ],
    )
    assert (part.html(section) is None) == (events < 3)


def test_every_domain_has_a_style_of_its_own():
    styles = assign_domain_styles(["face", *map(str, range(90)), "face"])
    assert len({(style.colour, style.marker) for style in styles.values()}) == 91
    assert next(iter(styles)) == "face"
    assert all("<svg" in style.swatch for style in styles.values())


def test_a_domain_that_looks_like_mathematics_is_written_as_it_is():
    domain = r"from $1 to \$2 and $3"
    figure = part.plot_arcs(
        [Node(1, "a", domain, "random", None, 0, 0)], assign_domain_styles([domain])
    )
    add_legend(figure)
    assert f">{domain}</text>" in svg.render_inline(figure, "graph", "")
