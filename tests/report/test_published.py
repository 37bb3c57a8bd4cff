"""Published results in the page: lines in the plane, on no front, in no table of costs, and the
page says so.
"""

import re

import pytest

from nevis_stream.analysis.runs import group_by_stream, read_runs
from nevis_stream.experiments import published
from nevis_stream.report.build import write_report
from nevis_stream.report.parts import regret
from nevis_stream.report.section import Section
from tests.experiments.test_published import over_full
from tests.report.page_reader import Page


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    return published.write(tmp_path_factory.mktemp("published"))


@pytest.fixture(scope="module")
def beside(paths, tmp_path_factory):
    """A page of two of the user's runs over the stream `full` and the published ones."""
    folder = tmp_path_factory.mktemp("beside")
    own = [
        over_full().write(folder / "indep"),
        over_full(learner="ft_d", skill=0.1, flops=1500).write(folder / "ft_d"),
    ]
    return Page(write_report([*paths, *own], folder / "report"))


def test_they_are_lines_and_never_on_a_front(beside):
    assert beside.source.count('id="points-1-published"') == 4
    budgets, fronts = (
        [text for text, _ in beside.column("points-1", name)] for name in ("Budget", "Front")
    )
    assert (
        sorted(zip(budgets, fronts, strict=True))
        == [("published", "no cost")] * 4 + [("small", "on front")] * 2
    )
    assert "n = 4 published results whose FLOPs were not published" in beside.text
    assert "n = 2 methods" in beside.text


def test_the_page_says_what_they_are(beside):
    assert "4 of these runs are published results" in beside.text
    assert "matched with the other runs by task name" in beside.text
    assert "iaprtc12, voc2012" in beside.text
    assert beside.text.count("6 runs") and "no value in NEVIS'22, Appendix N" in beside.text


def test_costs_are_those_of_own_runs(beside):
    assert [text for text, _ in beside.column("costs-1", "Method")] == [
        "ft_d · small",
        "indep · small",
    ]
    for learner in ("indep", "ft_prev", "ft_dynamic", "mt"):
        assert f"{learner} · published: {published.FLOPS_REASON}" in beside.text


@pytest.mark.usefixtures("undrawn")
def test_alone_they_make_a_page_without_a_plane(paths, tmp_path):
    page = Page(write_report(paths, tmp_path / "report"))
    assert "points-1-published" not in page.source
    assert (
        "No figure: no method has both a defined mean error and training FLOPs above zero"
        in page.text
    )
    assert not re.search(r"\b(nan|NaN|inf|None)\b", page.text)


def test_own_errors_stand_beside_the_published_ones(beside):
    head, *rows = beside.tables["beside-1"]
    assert len(rows) == 104
    assert [text.split()[0] for text, _ in head[2:8]] == [
        "ft_d",
        "indep",
        "indep",
        "ft_prev",
        "ft_dynamic",
        "mt",
    ]
    values = dict(zip([row[1][0] for row in rows], [float(row[4][1]) for row in rows], strict=True))
    assert (values["trancos"], values["mnist"]) == (0.8765, 0.0059)
    assert "Published, full-size network and budget" in beside.text


def test_regret_in_flops_needs_known_costs(beside):
    methods, spent = (
        [text for text, _ in beside.column("regret-ends-1", name)]
        for name in ("Method", "Training FLOPs")
    )
    by_method = dict(zip(methods, spent, strict=True))
    # 106 · 107 / 2 tasks' worth of 2 · 500 FLOPs
    assert by_method["ft_d · small"] == "5.67e6 n = 1"
    assert {by_method[f"{name} · published"] for name in ("ft_prev", "ft_dynamic", "mt")} == {"–"}
    assert "ft_d: no indep run within 5% of its 17.0e6 training FLOPs; the nearest," in beside.text


def test_regret_stands_at_the_tasks_of_the_stream(paths, tmp_path):
    own = [
        over_full().write(tmp_path / "indep"),
        over_full(learner="ft_d", skill=0.1).write(tmp_path / "ft_d"),
    ]
    (section,) = (
        Section(1, runs) for runs in group_by_stream(read_runs([*paths, *own])[0]).values()
    )
    whole = regret.figures(section)["regret"].draw().axes[1]
    ends = {
        line.get_label().split(" ·")[0]: line.get_xdata()
        for line in whole.get_lines()
        if " ·" in line.get_label()
    }
    assert len(ends["ft_d"]) == 107 and len(ends["mt"]) == 105
    assert ends["ft_d"][-1] == ends["mt"][-1] == 106
