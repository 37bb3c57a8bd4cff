"""What the page says of unusual runs: mixed, unfinished, damaged, or simply odd."""

import re

import pandas as pd
import pytest

from nevis_stream.errors import BadInput
from nevis_stream.report.build import write_report
from tests.report.page_reader import Page
from tests.report.synthetic import SyntheticRun

RUN = SyntheticRun()
OURS = RUN.but(learner="ft_d", skill=0.1, flops=1500)


def report(tmp_path, *runs, more=()):
    paths = [run.write(tmp_path / f"run{i}") for i, run in enumerate(runs)]
    return Page(write_report([*paths, *more], tmp_path / "out"))


def test_streams_and_protocols_stand_in_sections_of_their_own(tmp_path):
    variants = [RUN, OURS, OURS.but(digest="f" * 16), OURS.but(protocol="meta_train")]
    page = report(tmp_path, *variants)
    assert {f"section-{i}" for i in (1, 2, 3)} <= set(page.ids)
    assert "runs of different streams or protocols are not compared" in page.text
    assert [len(page.tables[f"points-{i}"]) - 1 for i in (1, 2, 3)] == [2, 1, 1]
    assert page.text.count("No regret curve") == 2


def test_what_is_left_out_is_said_with_its_reason(tmp_path):
    torn = OURS.but(seed=5).write(tmp_path / "torn")
    lines = (torn / "ledger.jsonl").read_text().splitlines(keepends=True)
    (torn / "ledger.jsonl").write_text("".join(lines[:2] + lines[3:]))
    garbled = OURS.but(seed=6).write(tmp_path / "garbled")
    (garbled / "ledger.jsonl").write_text(lines[0] + "{]\n" + "".join(lines[1:]))
    half = OURS.but(seed=7, events=5).write(tmp_path / "half")
    missing = tmp_path / "missing"
    page = report(tmp_path, RUN, OURS, more=(torn, garbled, half, missing, tmp_path))
    assert "4 left out" in page.text
    for words in (
        f"{torn}: {torn}/ledger.jsonl, record 3: event 2 where event 1 is due",
        "line 2: not a ledger record",
        f"{missing}: no such directory",
        f"{tmp_path}: not a run directory",
        f"{half}: unfinished: 3 of 4 tasks trained, 5 of 8 events done",
    ):
        assert words in page.text
    ((n, _),) = [cell for cell in page.column("points-1", "n") if "of" in cell[0]]
    assert n == "1 of 2"


def test_unfinished_runs_alone_give_a_page_without_points(tmp_path):
    page = report(tmp_path, RUN.but(events=3), OURS.but(events=0))
    assert "No figure: no method has a defined E" in page.text
    assert {value for _, value in page.column("points-1", "E")} == {""}
    assert "partial: cost so far" in page.text
    points = pd.read_csv(tmp_path / "out" / "points.csv")
    assert points[["error", "paper_total", "full_total"]].isna().all(axis=None)


def test_no_usable_run_is_an_error_that_lists_why(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput) as caught:
        write_report([tmp_path / "empty", tmp_path / "nowhere"], tmp_path / "out")
    assert f"{tmp_path}/empty: not a run directory" in str(caught.value)
    assert f"{tmp_path}/nowhere: no such directory" in str(caught.value)
    assert not (tmp_path / "out").exists()
    with pytest.raises(BadInput, match="none was given"):
        write_report([], tmp_path / "out")


ODD = {
    "one task": [RUN.but(tasks=1, meta_test=1, trials=1)],
    "no cost": [RUN.but(flops=0, init_flops=0), OURS],
    "costs far apart": [RUN.but(flops=10**25), OURS.but(flops=1)],
    "curve of one point": [RUN.but(curve_points=1), OURS.but(curve_points=500)],
    "no budget": [RUN.but(budget=None), OURS.but(budget=None)],
    "no thumbnail": [RUN.but(thumbnails=False, task_name="a/../{}")],
    "many": [RUN.but(learner=f"学習 {i}", flops=1000 + i) for i in range(20)],
    "none judged": [RUN.but(meta_test=0), OURS.but(meta_test=0)],
    "no error": [RUN.but(errors=(("task_003", 0.0), ("task_004", 0.0)))],
}


@pytest.mark.parametrize("runs", ODD.values(), ids=ODD)
def test_odd_runs_make_a_page(tmp_path, runs):
    page = report(tmp_path, *runs)
    values = [value for _, attributes in page.tags for value in attributes.values() if value]
    for text in (page.text, *values):
        assert not re.search(r"\b(nan|NaN|inf|None)\b", text), text


def test_a_run_that_cost_nothing_is_said_to_be_off_the_figure(tmp_path):
    page = report(tmp_path, RUN.but(flops=0), OURS)
    assert "the train phase cost nothing: indep · small" in page.text


def test_damaged_side_files_do_not_hurt(tmp_path):
    path = RUN.write(tmp_path / "run")
    (path / "config.json").write_text("{")
    (path / "environment.jsonl").write_bytes(b"\xff")
    (path / "thumbnails" / "task_001.png").write_text("<svg onload=alert(1)>")
    (path / "thumbnails" / "task_002.png").unlink()
    page = Page(write_report([path], tmp_path / "out"))
    assert "1 of 1 runs" in page.text
    assert page.text.count("no thumbnail in the run directories") == 2
    assert [tag for tag, _ in page.tags].count("img") == 2
