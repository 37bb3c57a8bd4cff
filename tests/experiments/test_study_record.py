"""The record of a study: kept cell by cell, continued after a kill, and not mixed with another."""

import json
import lzma
import math

import numpy as np
import pytest

from nevis_stream.errors import BadInput
from nevis_stream.experiments.study_record import StudyRecord, pack

CELLS = [{"method": name, "seed": seed} for seed in (0, 1) for name in ("a", "b")]


def measure(cell):
    return {"error": np.float64(cell["seed"] + 0.1), "low": math.nan, "curve": np.arange(3)}


def run(file):
    record = StudyRecord(file)
    missing = record.missing(CELLS)
    for cell in missing:
        record.add(cell, measure(cell))
    return record, len(missing)


def test_a_study_goes_on_after_a_kill_at_any_byte(tmp_path):
    file = tmp_path / "study.jsonl"
    whole, count = run(file)
    content = file.read_bytes()
    assert count == 4 and run(file)[1] == 0
    for length in (*range(0, len(content), 37), len(content) - 1):
        file.write_bytes(content[:length])
        record, count = run(file)
        assert count == 4 - content[:length].count(b"\n")
        assert file.read_bytes() == content
        assert str(record.rows()) == str(whole.rows())


def test_results_come_back_as_they_were(tmp_path):
    run(tmp_path / "study.jsonl")
    record = StudyRecord(tmp_path / "study.jsonl")
    assert len(record) == 4 and CELLS[3] in record and {"method": "c", "seed": 0} not in record
    row = record.rows()[0]
    assert row.pop("low") != 0 and row == {
        "method": "a",
        "seed": 0,
        "error": 0.1,
        "curve": [0, 1, 2],
    }
    assert math.isnan(record[CELLS[0]]["low"])
    record.add({"method": "c"}, [{"budget": 1}, {"budget": 2}])
    assert record.rows()[-2:] == [{"method": "c", "budget": 1}, {"method": "c", "budget": 2}]


def test_of_a_cell_that_two_processes_measured_the_first_counts(tmp_path):
    both = [StudyRecord(tmp_path / "study.jsonl") for _ in range(2)]
    for number, record in enumerate(both):
        record.add(CELLS[0], {"number": number})
    assert StudyRecord(tmp_path / "study.jsonl")[CELLS[0]] == {"number": 0}


def test_another_study_is_refused(tmp_path):
    file = tmp_path / "study.jsonl"
    StudyRecord(file, {"seed": 0, "matrices": {"a": "1"}})
    StudyRecord(file, {"seed": 0, "matrices": {"b": "2"}})
    kept = {"seed": 0, "matrices": {"a": "1", "b": "2"}}
    assert json.loads((tmp_path / "study.json").read_text()) == kept
    for settings, difference in (
        ({"seed": 1, "matrices": {}}, r"\(seed: there 0, now 1\)"),
        ({"seed": 0, "matrices": {"b": "3"}}, r"\(matrices.b: there \"2\", now \"3\"\)"),
        ({"seed": 0, "matrices": {}, "hide": "x"}, r"\(hide: there null, now \"x\"\)"),
    ):
        with pytest.raises(BadInput, match=difference):
            StudyRecord(file, settings)
    StudyRecord(file, {**kept, "hide": ""}, former_settings={"hide": ""})
    with pytest.raises(BadInput, match="hide"):
        StudyRecord(file, {**kept, "hide": "x"}, former_settings={"hide": ""})
    (tmp_path / "study.json").write_text("{")
    with pytest.raises(BadInput, match=r"study\.json: "):
        StudyRecord(file, kept)


def test_a_changed_line_is_refused_with_its_place(tmp_path):
    file = tmp_path / "study.jsonl"
    run(file)
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join([lines[0], lines[1].replace("0.1", "0.2"), *lines[2:]]))
    with pytest.raises(BadInput, match="line 2: it has changed"):
        StudyRecord(file)
    file.write_text(lines[0])  # as the message says
    assert run(file)[1] == 3


def test_files_of_an_earlier_version_are_taken_over_once(tmp_path):
    file, calls = tmp_path / "study.jsonl", []

    def former():
        calls.append(1)
        return [(cell, measure(cell)) for cell in CELLS[:3]]

    assert len(StudyRecord(file, former=former).missing(CELLS)) == 1
    assert len(StudyRecord(file, former=former)) == 3 and len(calls) == 1


def test_packed_cells_are_there_and_others_come_after_them(tmp_path):
    file = tmp_path / "study.jsonl"
    whole, _ = run(file)
    first = pack(file).read_bytes()
    assert not file.exists() and str(StudyRecord(file).rows()) == str(whole.rows())
    assert run(file)[1] == 0 and not file.exists()  # nothing is computed again
    StudyRecord(file).add({"method": "c"}, 1)
    assert len(StudyRecord(file)) == 5 and (tmp_path / "study.jsonl.xz").read_bytes() == first
    again = pack(file)
    assert len(StudyRecord(file)) == 5 and not file.exists()
    for damaged in (first[:-20], lzma.compress(b"no JSON\n")):
        again.write_bytes(damaged)
        with pytest.raises(BadInput, match="study.jsonl.xz: "):
            StudyRecord(file)
