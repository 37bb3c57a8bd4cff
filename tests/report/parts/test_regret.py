"""Regret: what is drawn where budgets match, where they do not, and where there is nothing."""

import pytest

from nevis_stream.analysis.runs import read_runs
from nevis_stream.report.build import write_report
from nevis_stream.report.parts import regret
from nevis_stream.report.section import Section
from tests.report.page_reader import Page
from tests.report.synthetic import SyntheticRun

INDEP = SyntheticRun(learner="Indep")
OURS = INDEP.but(learner="FT-d", skill=0.2)


def section(tmp_path, *runs):
    return Section(1, read_runs([run.write(tmp_path / str(i)) for i, run in enumerate(runs)])[0])


def page(tmp_path, *runs):
    paths = [run.write(tmp_path / f"run{i}") for i, run in enumerate(runs)]
    return Page(write_report(paths, tmp_path / "out"))


def headings(page):
    return [text for text, _ in page.tables["regret-ends-1"][0]]


@pytest.mark.usefixtures("undrawn")
def test_where_budgets_match_regret_at_equal_compute_is_regret(tmp_path):
    shown = page(tmp_path, INDEP, OURS)
    assert "Every method that has an indep run of the same budget and seed used its" in shown.text
    assert not [heading for heading in headings(shown) if "equal compute" in heading]
    assert list(regret.figures(section(tmp_path / "again", INDEP, OURS))) == ["regret"]


@pytest.mark.usefixtures("undrawn")
def test_a_method_that_costs_as_much_as_indep_of_another_budget_has_both_regrets(tmp_path):
    costly = OURS.but(learner="BHPO", flops=9000)
    runs = (INDEP, INDEP.but(budget="big", flops=9050), costly, OURS)
    shown = page(tmp_path, *runs)
    assert len([heading for heading in headings(shown) if "equal compute" in heading]) == 2
    rows = {row[0][0]: [text for text, _ in row] for row in shown.tables["regret-ends-1"][1:]}
    assert rows["FT-d · small"][-2:] == ["same", "same"]
    own, other = rows["BHPO · small"][2], rows["BHPO · small"][4]
    assert own != other and other not in ("same", "–")
    (panels,) = [
        drawing.draw().axes
        for name, drawing in regret.figures(section(tmp_path / "again", *runs)).items()
        if name == "regret_and_compute"
    ]
    assert [panel.get_title(loc="left") for panel in panels][0] == "FLOPs, whole stream"
    named = {line.get_label() for panel in panels[1:] for line in panel.get_lines()}
    assert {name for name in named if " · " in name} == {"BHPO · small (n = 1)"}


@pytest.mark.usefixtures("undrawn")
def test_without_a_curve_there_is_a_reason_and_no_table_of_dashes(tmp_path):
    shown = page(tmp_path, INDEP.but(budget="big", flops=9000), OURS)
    assert "No regret curve" in shown.text
    assert "regret-ends-1" not in shown.tables
    assert "No differences to show: no method has a finished indep run" in shown.text
