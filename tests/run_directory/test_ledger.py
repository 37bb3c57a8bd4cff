"""The ledger: append only, complete lines only."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nevis_stream.errors import BadInput
from nevis_stream.run_directory.ledger import SCHEMA, Ledger

RECORDS = [
    {"kind": "run", "schema": SCHEMA, "learner": "x", "flops": {"train": {"0": 10**24}}},
    {"kind": "train", "event": 0, "task_id": 'é\n"b', "chosen": 12345},
    {"kind": "predict", "event": 1, "task_id": "b", "error": 0.1 + 0.2},
    {"kind": "end", "events": 2},
]


def write(path, records=RECORDS):
    ledger = Ledger(path)
    for record in records:
        ledger.append(record)
    return ledger.path


@given(st.data())
def test_truncated_anywhere_it_gives_a_prefix_of_the_records(tmp_path_factory, data):
    file = write(tmp_path_factory.mktemp("l"))
    content = file.read_bytes()
    cut = data.draw(st.integers(0, len(content)))
    file.write_bytes(content[:cut])
    ledger = Ledger(file.parent)
    assert ledger.records == RECORDS[: content[:cut].count(b"\n")]
    for record in RECORDS[len(ledger.records) :]:
        ledger.append(record)
    assert file.read_bytes() == content


def test_events_and_completeness(tmp_path):
    write(tmp_path, RECORDS[:2])
    ledger = Ledger(tmp_path)
    assert not ledger.complete
    assert ledger.event(0) == RECORDS[1]
    assert ledger.event(1) is None
    for record in RECORDS[2:]:
        ledger.append(record)
    assert ledger.complete
    assert ledger.event(1) == RECORDS[2]
    assert ledger.event(2) is None
    assert ledger.of_kind("predict") == RECORDS[2:3]


def test_nan_is_refused(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        Ledger(tmp_path).append({"kind": "run", "x": float("nan")})
    assert not Ledger(tmp_path).records


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{not json", "line 3: not a ledger record"),
        ('{"kind":"other"}', "kind 'other'; valid: run, train"),
        ("[1]", "line 3"),
    ],
)
def test_a_damaged_line_is_named(tmp_path, line, message):
    file = write(tmp_path, RECORDS[:2])
    file.write_text(file.read_text() + line + "\n" + json.dumps(RECORDS[2]) + "\n")
    with pytest.raises(BadInput, match=message):
        Ledger(tmp_path)


def test_a_newer_schema_is_refused(tmp_path):
    write(tmp_path, [RECORDS[0] | {"schema": SCHEMA + 1}])
    with pytest.raises(BadInput, match="Install a newer"):
        Ledger(tmp_path)


def test_an_empty_directory_is_no_run(tmp_path):
    with pytest.raises(BadInput, match="no record yet"):
        _ = Ledger(tmp_path).header
