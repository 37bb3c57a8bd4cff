"""The ledger: append only, complete lines only, each line a valid record."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nevis_stream.errors import BadInput
from nevis_stream.run_directory.ledger import History, Ledger
from nevis_stream.run_directory.records import (
    SCHEMA,
    EndRecord,
    Header,
    PredictRecord,
    TrainRecord,
    TrialRecord,
    parse,
)
from nevis_stream.storage.record import encode

HEADER = Header(
    schema=SCHEMA,
    learner="x",
    budget=None,
    stream="toy",
    stream_digest="0" * 16,
    protocol="meta_test",
    seed=0,
    config_hash="1" * 16,
    tasks=1,
    events=2,
    flops={"train": {"0": 10**24 + 1}},
)
TRAIN = TrainRecord(
    event=0,
    order=1,
    task_id='é\n"b',
    dataset_id="b",
    year=1998,
    domain="object",
    task_kind="single_label",
    meta_split="test",
    num_classes=3,
    n_train=40,
    n_dev=10,
    mean_height=8.0,
    mean_width=8.5,
    flops={"train": {"0": 7, "-": 1}},
    chosen=0,
    trials=(TrialRecord(trial=0, predictor_id="2" * 16, step=9, info={"steps": 9}),),
)
PREDICT = PredictRecord(
    event=1,
    train_event=0,
    order=1,
    task_id='é\n"b',
    split="test",
    n=10,
    metric="error_rate",
    value=0.1 + 0.2,
    error=0.1 + 0.2,
    predictor_id="2" * 16,
    trial=0,
    outcomes="outcomes/0001-b-test-trial-000.npz",
    flops={"predict": {"0": 3}},
    others=(),
)
RECORDS = [HEADER, TRAIN, PREDICT, EndRecord(events=2)]


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


def test_a_line_is_its_record_again(tmp_path):
    for line in write(tmp_path).read_text().splitlines():
        assert encode(parse(json.loads(line)).to_json()) == line
    assert Ledger(tmp_path).header.flops == {"train": {"0": 10**24 + 1}}


def test_null_in_an_optional_field_reads_as_absent():
    assert parse(PREDICT.to_json() | {"reason": None}) == PREDICT
    assert parse(TRAIN.to_json() | {"n_leaked": None}) == TRAIN
    assert "n_leaked" not in TRAIN.to_json()


def test_events_and_completeness(tmp_path):
    write(tmp_path, RECORDS[:2])
    ledger = Ledger(tmp_path)
    assert not ledger.complete
    for record in RECORDS[2:]:
        ledger.append(record)
    assert ledger.complete
    assert ledger.of_kind(PredictRecord) == [PREDICT]
    assert ledger.training_of(PREDICT) == TRAIN


def test_a_predict_record_without_its_train_record_is_named(tmp_path):
    with pytest.raises(BadInput, match=r"event 1 predicts task .* which was not trained before"):
        History(tmp_path, [HEADER, PREDICT]).training_of(PREDICT)


def test_nan_is_refused(tmp_path):
    with pytest.raises(ValueError, match="events is nan, which no JSON file keeps"):
        Ledger(tmp_path).append(EndRecord(events=float("nan")))
    assert not Ledger(tmp_path).records


def changed(record, **values):
    return json.dumps(record.to_json() | values)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{not json", "line 3: not JSON"),
        ('{"kind":"other"}', "kind 'other'; valid: run, train"),
        ("[1]", r"line 3: not a ledger record \(is \[1\], not an object"),
        ('{"kind":"end"}', "line 3: .*end record: events is missing"),
        (changed(TRAIN, year=10**30), "train record: year is a number of 31 digits; valid: 0 to"),
        (
            changed(TRAIN, flops={"train": {"0": 10**400}}),
            "flops of 'train', trial 0 is a number of 401 digits; valid: 0 to",
        ),
        (changed(TRAIN, flops={"fly": {"0": 1}}), "'fly'.*predict, pretrain"),
        (changed(TRAIN, flops={"train": {"all": 1}}), "names the trial 'all'"),
        (changed(TRAIN, trials=[{"trial": 0}]), r"trials \[0\] predictor_id"),
        (changed(TRAIN, task_kind="single"), "'single'.*'single_label'"),
        (changed(PREDICT, error=1.5), "error is 1.5; valid: 0 to 1"),
        (changed(PREDICT, n=True), "n is True, not a whole number"),
        (changed(PREDICT, split="tset"), "'tset'.*'test'"),
        (changed(PREDICT, metric="m" * 2000), "metric has 2000 characters"),
        ('{"kind":"end","events":' + "9" * 5000 + "}", "line 3: not a ledger record"),
        ("[" * 100_000, "line 3: not a ledger record"),
    ],
)
def test_a_damaged_line_is_named(tmp_path, line, message):
    file = write(tmp_path, RECORDS[:2])
    file.write_text(file.read_text() + line + "\n" + encode(PREDICT.to_json()) + "\n")
    with pytest.raises(BadInput, match=message):
        Ledger(tmp_path)


@pytest.mark.parametrize("schema", [True, 0, "3", None, [3]])
def test_an_invalid_schema_is_refused(tmp_path, schema):
    (tmp_path / "ledger.jsonl").write_text(changed(HEADER, schema=schema) + "\n")
    with pytest.raises(BadInput, match="schema is"):
        Ledger(tmp_path)


def test_a_newer_schema_is_refused(tmp_path):
    (tmp_path / "ledger.jsonl").write_text(changed(HEADER, schema=SCHEMA + 1) + "\n")
    with pytest.raises(BadInput, match="Install a newer"):
        Ledger(tmp_path)


def test_an_empty_directory_is_not_a_run(tmp_path):
    with pytest.raises(BadInput, match="no record yet"):
        _ = Ledger(tmp_path).header
