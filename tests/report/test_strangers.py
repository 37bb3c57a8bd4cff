"""Run directories with unexpected content: they are left out with the reason, the others are
shown.
"""

import base64
import copy
import io
import json
import os
import tempfile
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from nevis_stream.analysis.runs import read_runs
from nevis_stream.report.build import find_fault, write_report
from nevis_stream.report.parts import samples
from tests.report.page_reader import Page
from tests.report.synthetic import SyntheticRun

RUN = SyntheticRun(tasks=2, meta_test=1, curve_points=2, thumbnails=False)
STRANGER = RUN.but(learner="stranger")


def with_records(path: Path, change) -> Path:
    """Changes the ledger of a run directory."""
    records = [json.loads(line) for line in (path / "ledger.jsonl").read_text().splitlines()]
    change(records)
    (path / "ledger.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def setting(position, *names, value):
    """A change of the value at a place in a ledger."""

    def change(records):
        node = records[position]
        for name in names[:-1]:
            node = node[name]
        node[names[-1]] = value

    return change


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            setting(1, "flops", "train", "0", value=10**400),
            "trial 0 is a number of 401 digits",
        ),
        (setting(1, "year", value=10**30), "year is a number of 31 digits"),
        (setting(0, "schema", value=True), "schema"),
        (setting(0, "seed", value=10**30), "seed is a number of 31 digits"),
        (setting(0, "learner", value="\ud800"), "not valid Unicode"),
        (setting(1, "trials", value=[7]), "trials [0] is 7, not an object"),
        (setting(1, "num_classes", value=[[]]), "num_classes is"),
        (setting(2, "value", value={"a": 1}), "value is"),
        (setting(2, "trial", value=[0]), "trial is"),
    ],
)
def test_one_impossible_value_leaves_one_run_out(tmp_path, change, words):
    good = RUN.write(tmp_path / "good")
    stranger = with_records(STRANGER.write(tmp_path / "stranger"), change)
    page = Page(write_report([stranger, good], tmp_path / "out"))
    assert f"{stranger}:" in page.text
    assert words in page.text
    assert set(pd.read_csv(tmp_path / "out" / "points.csv")["learner"]) == {"indep"}


@pytest.mark.usefixtures("undrawn")
def test_what_no_check_foresees_leaves_one_run_out_too(tmp_path, monkeypatch):
    """A part that fails on an unexpected value, whatever it raises."""
    paths = [run.write(tmp_path / run.learner) for run in (RUN, STRANGER)]
    html = samples.html

    def fragile(section):
        assert all(run.path == paths[0] for run in section.runs), "no such learner"
        return html(section)

    monkeypatch.setattr(samples, "html", fragile)
    page = Page(write_report(paths, tmp_path / "out"))
    assert f"{paths[1]}: its values cannot be shown: AssertionError: no such learner" in page.text
    assert set(pd.read_csv(tmp_path / "out" / "runs.csv")["learner"]) == {"indep"}


_numbers = st.sampled_from(
    [0, -1, 1, 2, True, 0.5, -0.0, 1e308, -1e-320, 2**53, 2**63, 10**40, 10**400, float("inf")]
)
_texts = st.sampled_from(
    ["", "\ud800", "\0", "\x1b[2J", "=1", "task_001", "a" * 400, "../..", "$\\"]
)
_values = st.recursive(
    st.none() | _numbers | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=2),
    max_leaves=4,
)


def places(node, path=()):
    """Every place in a JSON value."""
    pairs = node.items() if isinstance(node, dict) else enumerate(node)
    for name, value in list(pairs):
        yield *path, name
        if isinstance(value, dict | list):
            yield from places(value, (*path, name))


RECORDS = RUN.records()
PLACES = [(i, *place) for i, record in enumerate(RECORDS) for place in places(record)]


@pytest.mark.usefixtures("undrawn")
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from(PLACES), _values), min_size=1, max_size=2))
def test_any_value_in_a_ledger_is_shown_or_left_out(changes):
    """A ledger that passes the checks makes a page."""
    records = copy.deepcopy(RECORDS)
    for (position, *names), value in changes:
        try:
            setting(position, *names, value=value)(records)
        except (TypeError, KeyError, IndexError):  # the change before took the place away
            continue
    with tempfile.TemporaryDirectory() as folder:
        path = RUN.write(Path(folder) / "run")
        lines = (json.dumps(record) + "\n" for record in records)
        (path / "ledger.jsonl").write_text("".join(lines))
        runs, left_out = read_runs([path])
        assert len(runs) + len(left_out) == 1
        assert not any("cannot be read:" in item.reason for item in left_out)
        assert [find_fault(run) for run in runs] in ([], [""])


def secret(path: Path) -> bytes:
    """An image that the report must not read."""
    buffer = io.BytesIO()
    Image.new("RGB", (8, 8), (1, 2, 3)).save(buffer, "PNG")
    path.write_bytes(buffer.getvalue())
    return buffer.getvalue()


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("folder_too", [False, True])
def test_links_out_of_a_run_directory_are_not_followed(tmp_path, folder_too):
    (tmp_path / "home").mkdir()
    data = secret(tmp_path / "home" / "task_001.png")
    (tmp_path / "home" / "secret.jsonl").write_text('{"password": "hunter2"}\n')
    run = RUN.write(tmp_path / "run")
    thumbnails = run / "thumbnails"
    if folder_too:
        thumbnails.rmdir()
        thumbnails.symlink_to(tmp_path / "home")
    else:
        (thumbnails / "task_001.png").symlink_to(tmp_path / "home" / "task_001.png")
    (run / "environment.jsonl").unlink()
    (run / "environment.jsonl").symlink_to(tmp_path / "home" / "secret.jsonl")
    page = Page(write_report([run], tmp_path / "out"))
    assert base64.b64encode(data).decode()[:40] not in page.source
    assert "data:image/png;base64," not in page.source
    assert "hunter2" not in page.source
    link = "thumbnails" if folder_too else "thumbnails/task_001.png"
    assert f"symbolic links are not followed: environment.jsonl, {link}" in page.text


def test_a_ledger_that_is_a_link_is_left_out(tmp_path):
    run, other = (RUN.but(seed=seed).write(tmp_path / str(seed)) for seed in (0, 1))
    (run / "ledger.jsonl").unlink()
    (run / "ledger.jsonl").symlink_to(other / "ledger.jsonl")
    runs, left_out = read_runs([run, other])
    assert [item.path for item in runs] == [other]
    assert "a symbolic link" in left_out[0].reason


@pytest.mark.usefixtures("undrawn")
def test_a_pipe_in_the_place_of_a_picture_does_not_block(tmp_path):
    run = RUN.write(tmp_path / "run")
    os.mkfifo(run / "thumbnails" / "task_001.png")
    assert find_fault(read_runs([run])[0][0]) == ""


@pytest.mark.usefixtures("undrawn")
def test_a_directory_whose_name_is_not_utf8_is_shown_escaped(tmp_path):
    run = Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), b"caf\xe9")))
    RUN.write(run)
    page = write_report([run], tmp_path / "out").read_text(encoding="utf-8")
    assert r"caf\xe9" in page
    assert r"caf\xe9" in (tmp_path / "out" / "runs.csv").read_text(encoding="utf-8")


def test_texts_that_a_spreadsheet_would_run_are_quoted(tmp_path):
    evil = '=HYPERLINK("http://x")'
    run = RUN.but(learner=evil, stream="+1", task_name="@{}", config=(("-k", "\t1"),))
    write_report([run.write(tmp_path / "run")], tmp_path / "out")
    for path in (tmp_path / "out").glob("*.csv"):
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
        cells = {*frame.columns, *frame.to_numpy().ravel().tolist()}
        assert not [
            cell
            for cell in cells
            if cell.startswith(("=", "+", "-", "@", "\t")) and not cell[1:2].isdigit()
        ], path
    points = pd.read_csv(tmp_path / "out" / "points.csv")
    assert set(points["learner"]) == {f"'{evil}"}
    assert set(points["stream"]) == {"'+1"}
    assert points["paper_total"].dtype.kind in "iu"


@pytest.mark.usefixtures("undrawn")
def test_runs_of_one_rule_may_have_different_events(tmp_path):
    """The page says what it cannot compare; neither run is called damaged."""

    def ruled(path, name):
        def change(records):
            records[0] |= {"rule": "uncertain", "tasks": None, "events": None}
            for record in records[3:5]:
                record["task_id"] = name

        return with_records(path, change)

    runs = [
        RUN.but(learner=learner, tasks=3, meta_test=2).write(tmp_path / learner)
        for learner in ("a", "indep")
    ]
    paths = [ruled(path, f"chosen_by_{path.name}") for path in runs]
    page = Page(write_report(paths, tmp_path / "out"))
    assert "one of the two is damaged" not in page.text
    assert "chose other events in some of these runs" in page.text
    assert "regret needs the same tasks in the same order" in page.text
    assert "2 of 3 tasks are not in every run" in page.text
