"""Inconsistent ledgers and outcomes are refused by their readers; the message names the place."""

import json
from dataclasses import replace

import numpy as np
import pytest

from nevis_stream.errors import BadInput
from nevis_stream.run_directory.ledger import History, Ledger
from nevis_stream.run_directory.records import PredictRecord, check_outcomes
from tests.report.synthetic import SyntheticRun


def damaged(tmp_path, damage, **values):
    path = SyntheticRun(**values).write(tmp_path / "run") / "ledger.jsonl"
    records = [json.loads(line) for line in path.read_text().splitlines()]
    records = damage(records) or records
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path.parent


def setting(position, **values):
    return lambda records: records[position].update(values)


def without(position):
    return lambda records: records[:position] + records[position + 1 :]


def twice(position):
    return lambda records: records[: position + 1] + records[position:]


def cut_and_ended(records):
    return [*records[:-3], {"kind": "end", "events": 6}]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (without(3), "event 3, but event 2 is expected here"),
        (twice(4), "event 3, but event 4"),
        (cut_and_ended, "ends after 3 of 4 tasks"),
        (setting(0, protocol="meta"), "'meta'.*meta_test"),
        (setting(0, seed="0"), "seed is '0', not a whole number"),
        (setting(0, learner=None), "learner is None, not a string"),
        (setting(0, flops=None), "flops is null"),
        (setting(1, flops={"train": {"0": -1}}), "'train', trial 0 is -1; valid: 0 to"),
        (setting(1, flops={"train": {"0": 1.5}}), "trial 0 is 1.5, not a whole number"),
        (setting(1, flops={"train": 12}), "not whole numbers"),
        (setting(1, meta_split="dev"), "'dev'.*test, train"),
        (setting(1, trials=None), "trials is None, not a list"),
        (setting(2, error="0.2"), "error is '0.2'"),
        (setting(2, error=float("nan")), "error is nan"),
        (setting(2, error=True), "error is True"),
        (setting(2, error=1.5), "error is 1.5; valid: 0 to 1"),
        (setting(2, error=-0.1), "error is -0.1; valid: 0 to 1"),
        (setting(1, n_train="many"), "n_train is 'many'"),
        (setting(1, year=[1998]), r"year is \[1998\], not a whole number"),
        (setting(1, mean_height=-3), "mean_height is -3; valid: 0 to"),
        (setting(2, n=None), "n of a predict record is null"),
        (setting(2, task_id="other"), "'other' is predicted but never trained"),
        (setting(3, task_id="task_001"), "'task_001' is trained twice"),
        (setting(4, task_id="task_001"), "is predicted twice"),
    ],
)
def test_damage_is_named(tmp_path, damage, message):
    with pytest.raises(BadInput, match=message) as caught:
        Ledger(damaged(tmp_path, damage))
    assert "ledger.jsonl" in str(caught.value)


@pytest.mark.parametrize("values", [{}, {"events": 3}, {"budget": None}, {"init_flops": 0}])
def test_sound_ledgers_pass(tmp_path, values):
    assert Ledger(SyntheticRun(**values).write(tmp_path / "run")).records


def test_a_ledger_of_schema_1_passes(tmp_path):
    assert Ledger(damaged(tmp_path, setting(0, schema=1))).complete


PREDICTED = PredictRecord(
    event=1,
    order=1,
    task_id="coins",
    split="test",
    n=4,
    metric="error_rate",
    value=0.25,
    error=0.25,
    predictor_id=None,
    trial=0,
    outcomes="outcomes/0001.npz",
    flops={},
    others=(),
)
OUTCOMES = {"correct": np.array([1, 1, 0, 1], np.uint8)}
LABELS = {"correct": np.array([[1, 0], [1, 1]], np.uint8), "confidence": np.full((2, 2), 0.5)}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"correct": 1 - OUTCOMES["correct"]}, "'coins' have an error of 0.75, but .* says 0.25"),
        ({"correct": OUTCOMES["correct"][:3]}, "have 3 samples, but the ledger says 4"),
        ({"correct": OUTCOMES["correct"] * 2}, "no array `correct` of 0 and 1"),
        ({}, "no array `correct`"),
        (LABELS | {"confidence": np.array([[0.9, 0.9], [0.9, 0.9]])}, "contradict each other"),
    ],
)
def test_outcomes_that_contradict_the_ledger_are_refused(tmp_path, arrays, message):
    file = tmp_path / "outcomes" / "0001.npz"
    file.parent.mkdir()
    np.savez(file, **arrays)
    with pytest.raises(BadInput, match=message) as caught:
        History(tmp_path, [PREDICTED]).outcomes(PREDICTED)
    assert str(file) in str(caught.value)


def test_outcomes_that_agree_with_the_ledger_pass(tmp_path):
    check_outcomes(tmp_path, OUTCOMES, PREDICTED, PREDICTED)
    mean_ap = replace(PREDICTED, metric="mean_average_precision", n=2)
    check_outcomes(tmp_path, LABELS, mean_ap, mean_ap)
