"""The part of costs: exact tables, and a page that says the same."""

import pytest

from nevis_stream.analysis.runs import read_runs
from nevis_stream.report.build import write_report
from nevis_stream.report.parts import costs
from nevis_stream.report.section import Section
from tests.report.page_reader import Page
from tests.report.synthetic import SyntheticRun

RUN = SyntheticRun(learner="Indep")


def written(tmp_path, *runs):
    return [run.write(tmp_path / str(i)) for i, run in enumerate(runs)]


def test_tables_are_exact_and_shares_add_up(tmp_path):
    paths = written(tmp_path, RUN.but(flops=10**20 + 1), RUN.but(seed=1, events=1))
    tables = costs.tables(Section(1, read_runs(paths)[0]))
    frame, by_task = tables["costs"], tables["costs_by_task"]
    train = frame[(frame["run"] == "0") & frame["part"].isin(["train", "search"])]
    assert train["flops"].sum() == 20 * (10**20 + 1)
    assert frame.groupby("run")["share"].sum().to_dict() == pytest.approx({"0": 1, "1": 1})
    assert set(frame[frame["run"] == "1"]["status"]) == {"partial"}
    assert (
        by_task[by_task["run"] == "0"]["total"].sum() == frame[frame["run"] == "0"]["flops"].sum()
    )


def test_the_page_has_the_mean_over_finished_runs(tmp_path):
    paths = written(
        tmp_path,
        RUN,
        RUN.but(seed=1, flops=2000),
        RUN.but(seed=2, events=3),
        RUN.but(learner="FT-d", events=3),
    )
    page = Page(write_report(paths, tmp_path / "out"))
    # (10,000 + 20,000) / 2
    assert [value for _, value in page.column("costs-1", "search")] == ["3000", "15000.0"]
    assert [text for text, _ in page.column("costs-1", "n")] == ["1", "2"]
    assert "FT-d · small partial: cost so far" in [
        text for text, _ in page.column("costs-1", "Method")
    ]
    assert [text for text, _ in page.column("costs-by-task-1", "FT-d")][2:] == ["–", "–"]


def test_an_unfinished_method_shows_what_its_furthest_run_has_cost(tmp_path):
    paths = written(tmp_path, RUN.but(events=3), RUN.but(seed=1, events=5, flops=2000))
    (method,) = costs._average_methods(Section(1, read_runs(paths)[0]))
    # 2 trials of 4,000 FLOPs: not halved by the run that is not there yet
    assert method.by_task["task_002"] > 8000
    assert method.parts["train"] == 2000 + 4000 + 6000
    assert (method.partial, method.over) == (True, "unfinished, cost so far")


def test_runs_that_cost_nothing_have_a_table_and_no_figure(tmp_path):
    section = Section(1, read_runs(written(tmp_path, RUN.but(events=0, init_flops=0)))[0])
    assert costs.figures(section) == {}
    assert "<svg" not in costs.html(section)
