"""What the page says about unusual runs: mixed, unfinished, damaged, or simply odd."""

import errno
import json
import os
import re
from pathlib import Path

import pandas as pd
import pytest

from nevis_stream.errors import BadInput
from nevis_stream.report import build, exports
from nevis_stream.report.build import make_report, write_report
from nevis_stream.report.parts import answer, points, runs
from tests import forked
from tests.report.page_reader import Page
from tests.report.synthetic import SyntheticRun

RUN = SyntheticRun()
OURS = RUN.but(learner="ft_d", skill=0.1, flops=1500)


def report(tmp_path, *runs, more=()):
    paths = [run.write(tmp_path / f"run{i}") for i, run in enumerate(runs)]
    return Page(write_report([*paths, *more], tmp_path / "out"))


@pytest.fixture
def few_parts(monkeypatch, undrawn):
    """Pages of the parts that make statements about runs: a whole page for each damage would take
    minutes.
    """
    for module in (build, exports):
        monkeypatch.setattr(module, "PARTS", (answer, points, runs))


@pytest.mark.usefixtures("undrawn")
def test_streams_and_protocols_stand_in_sections_of_their_own(tmp_path):
    variants = [RUN, OURS, OURS.but(digest="f" * 16), OURS.but(protocol="meta_train")]
    page = report(tmp_path, *variants)
    assert {f"section-{i}" for i in (1, 2, 3)} <= set(page.ids)
    assert "runs of different streams or protocols are not compared" in page.text
    assert [len(page.tables[f"points-{i}"]) - 1 for i in (1, 2, 3)] == [2, 1, 1]
    assert page.text.count("No regret curve") == 2


@pytest.mark.usefixtures("undrawn")
def test_what_is_left_out_is_said_with_its_reason(tmp_path):
    torn = OURS.but(seed=5).write(tmp_path / "torn")
    lines = (torn / "ledger.jsonl").read_text().splitlines(keepends=True)
    (torn / "ledger.jsonl").write_text("".join(lines[:2] + lines[3:]))
    garbled = OURS.but(seed=6).write(tmp_path / "garbled")
    (garbled / "ledger.jsonl").write_text(lines[0] + "{]\n" + "".join(lines[1:]))
    half = OURS.but(seed=7, events=5).write(tmp_path / "half")
    missing, empty = tmp_path / "missing", tmp_path / "empty"
    empty.mkdir()
    page = report(tmp_path, RUN, OURS, more=(torn, garbled, half, missing, empty))
    assert "4 left out" in page.text
    for words in (
        f"{torn}: {torn}/ledger.jsonl, line 3: event 2, but event 1",
        "line 2: not JSON, so not a ledger",
        f"{missing}: no such directory",
        f"{empty}: not a run directory",
        f"{half}: unfinished: 3 of 4 tasks trained, 5 of 8 events done",
    ):
        assert words in page.text
    ((n, _),) = [cell for cell in page.column("points-1", "n") if "of" in cell[0]]
    assert n == "1 of 2"


@pytest.mark.usefixtures("undrawn")
def test_unfinished_runs_alone_give_a_page_without_points(tmp_path):
    page = report(tmp_path, RUN.but(events=3), OURS.but(events=0))
    assert "No figure: no method has both a defined mean error" in page.text
    assert {value for _, value in page.column("points-1", "Mean error")} == {""}
    assert "partial: cost so far" in page.text
    table = pd.read_csv(tmp_path / "out" / "points.csv")
    assert table[["error", "paper_total", "full_total"]].isna().all(axis=None)


def test_no_usable_run_is_an_error_that_lists_why(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput) as caught:
        write_report([tmp_path / "empty", tmp_path / "nowhere"], tmp_path / "out")
    assert f"{tmp_path}/empty: not a run directory" in str(caught.value)
    assert f"{tmp_path}/nowhere: no such directory" in str(caught.value)
    assert not (tmp_path / "out").exists()
    with pytest.raises(BadInput, match="no run was given"):
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


DRAWN = ("one task", "no cost", "costs far apart", "none judged")


@pytest.mark.parametrize("name", [name for name in ODD if name not in (*DRAWN, "many")])
@pytest.mark.usefixtures("only_made")
def test_odd_runs_make_a_page(tmp_path, name):
    assert not not_for_people(report(tmp_path, *ODD[name]))


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name not in DRAWN)) for name in ODD],
)
def test_odd_runs_make_a_page_with_figures(tmp_path, name):
    assert not not_for_people(report(tmp_path, *ODD[name]))


def not_for_people(page):
    """Texts of a page with what programs call a missing value."""
    values = [value for _, attributes in page.tags for value in attributes.values() if value]
    return [text for text in (page.text, *values) if re.search(r"\b(nan|NaN|inf|None)\b", text)]


@pytest.mark.usefixtures("few_parts")
def test_a_run_that_cost_nothing_is_said_to_be_off_the_figure(tmp_path):
    page = report(tmp_path, RUN.but(flops=0), OURS)
    assert "the train phase cost nothing: indep · small" in page.text


@pytest.mark.usefixtures("undrawn")
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


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("config.json", "Input/output error"),
        ("environment.jsonl", "Input/output error"),
        ("thumbnails/task_001.png", "is not a PNG image"),
        ("thumbnails/task_002.png", "runcated"),
        ("readings.json", "can't decode"),
        ("overlap.csv", "can't decode"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, name, reason, monkeypatch):
    path = RUN.write(tmp_path / "run")
    file = path / name
    if "Input" in reason:
        file.touch()
        _fail_at(file, monkeypatch)
    else:
        is_cut = reason == "runcated"
        file.write_bytes(file.read_bytes()[:60] if is_cut else b"\xff")
    with pytest.warns(UserWarning, match=f"left out of the report:\n  {file}: .*{reason}"):
        made = make_report([path], tmp_path / "out")
    assert not made.complete
    assert str(file) in Page(made.page).text


def _fail_at(file, monkeypatch):
    """Makes reading one file fail, as on a drive that does."""
    real = os.open

    def fail(path, *more, **options):
        if Path(path) == file:
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return real(path, *more, **options)

    monkeypatch.setattr(os, "open", fail)


def test_a_report_without_a_file_ends_with_1(tmp_path):
    path = RUN.but(tasks=1, meta_test=1).write(tmp_path / "run")
    (path / "thumbnails" / "task_001.png").write_bytes(b"no picture")
    done = forked.run("launch.report", path, f"--out={tmp_path / 'out'}")
    assert done.returncode == 1
    assert "thumbnails/task_001.png: cannot be read (is not a PNG image)" in done.stderr


def rewritten(path, change):
    """Rewrites a run's ledger; `change` gets its records."""
    file = path / "ledger.jsonl"
    records = [json.loads(line) for line in file.read_text().splitlines()]
    change(records)
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.mark.usefixtures("few_parts")
@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (99, "written with schema 99; this version reads up to"),
        ("2", "schema is '2', not a whole number"),
        (None, "schema is None, not a whole number"),
        (0, "schema is 0; valid: 1 to"),
    ],
)
def test_ledgers_that_this_version_cannot_read_are_left_out(tmp_path, schema, words):
    path = rewritten(
        OURS.but(seed=3).write(tmp_path / "odd"), lambda records: records[0].update(schema=schema)
    )
    page = report(tmp_path, RUN, OURS, more=(path,))
    assert "1 left out" in page.text
    assert words in page.text
    assert [text for text, _ in page.column("points-1", "n")] == ["1", "1"]


@pytest.mark.usefixtures("few_parts")
def test_ledgers_of_the_first_schema_are_used_and_named(tmp_path):
    path = rewritten(OURS.write(tmp_path / "old"), lambda records: records[0].update(schema=1))
    page = report(tmp_path, RUN, more=(path,))
    assert (
        f"its ledger has schema 1, without image sizes: slices by resolution lack this run: {path}"
        in page.text
    )
    assert "left out" not in page.text
    assert pd.read_csv(tmp_path / "out" / "runs.csv").set_index("run").loc["old", "schema"] == 1


@pytest.mark.usefixtures("few_parts")
def test_a_cut_last_line_is_dropped_and_told(tmp_path):
    path = OURS.write(tmp_path / "cut")
    file = path / "ledger.jsonl"
    file.write_bytes(file.read_bytes()[:-20])
    page = report(tmp_path, RUN, more=(path,))
    assert (
        "its last line was cut by a crash and is ignored; the same command continues from there:"
        f" {path}" in page.text
    )
    assert f"{path}: unfinished: 4 of 4 tasks trained, 8 of 8 events done" in page.text
    assert page.column("points-1", "Mean error")[0][1] == ""


CONFIGS = {
    "config.json is missing": lambda file: file.unlink(),
    "config.json: cannot be read": lambda file: file.write_bytes(b"\xff{"),
    "not a JSON object": lambda file: file.write_text("[1]"),
    "it belongs to another run": lambda file: file.write_text(
        file.read_text().replace(OURS.but(seed=1).config_hash, "0" * 16)
    ),
}


@pytest.mark.usefixtures("few_parts")
@pytest.mark.parametrize("words", CONFIGS)
def test_a_run_without_its_config_is_no_seed_of_another(tmp_path, words):
    paths = [OURS.but(seed=seed).write(tmp_path / f"seed{seed}") for seed in (0, 1, 2)]
    CONFIGS[words](paths[1] / "config.json")
    page = report(tmp_path, RUN, more=paths)
    assert words in page.text
    assert "so the run counts as a method of its own" in page.text
    assert sorted(text for text, _ in page.column("points-1", "n")) == ["1", "1", "2"]


CHANGES = {
    "announces 5 tasks, the other 4": lambda records: records[0].update(tasks=5),
    "meta_split of event 0 is 'test', the other's 'train'": (
        lambda records: records[1].update(meta_split="test")
    ),
    "n of event 7 is 9, the other's 54": lambda records: records[8].update(n=9),
    "task_id of event 0 is 'other'": lambda records: [
        records[i].update(task_id="other") for i in (1, 2)
    ],
}


@pytest.mark.usefixtures("few_parts")
@pytest.mark.parametrize("words", CHANGES)
def test_a_run_that_contradicts_another_of_its_digest_is_left_out(tmp_path, words):
    events = 8 if words.startswith("announces") else None
    path = rewritten(OURS.but(seed=9, events=events).write(tmp_path / "odd"), CHANGES[words])
    for place in ("first", "last"):
        own = [each.write(tmp_path / place / each.learner) for each in (RUN, OURS)]
        runs = [path, *own] if place == "first" else [*own, path]
        report = make_report(runs, tmp_path / place / "out")
        page = Page(report.page)
        assert "1 left out" in page.text and not report.complete
        assert words in page.text
        assert "most runs agree with that one" in page.text
        assert [text for text, _ in page.column("points-1", "n")] == ["1", "1"]


def test_without_a_majority_no_run_of_a_contradiction_is_used(tmp_path):
    change = CHANGES["n of event 7 is 9, the other's 54"]
    path = rewritten(OURS.but(seed=9).write(tmp_path / "odd"), change)
    with pytest.raises(BadInput, match="neither is used"):
        write_report([OURS.write(tmp_path / "own"), path], tmp_path / "out")


@pytest.mark.usefixtures("few_parts")
def test_streams_are_never_averaged_over(tmp_path):
    other = OURS.but(seed=1, digest="f" * 16, errors=(("task_003", 0.9), ("task_004", 0.9)))
    report(tmp_path, RUN, OURS, other)
    table = pd.read_csv(tmp_path / "out" / "points.csv")
    methods = table[table["row"] == "method"].set_index(["stream_digest", "learner"])
    assert methods["n"].tolist() == [1, 1, 1]
    assert methods.loc[("f" * 16, "ft_d"), "error"] == pytest.approx(0.9)
