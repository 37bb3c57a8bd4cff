"""The account of additions: what is written is read, and a line that is not an account is named."""

import json
from dataclasses import asdict

import pytest

from nevis_stream.dynamic_evaluation.additions import (
    LEDGER,
    Addition,
    append,
    merge_additions,
    read_additions,
)
from nevis_stream.dynamic_evaluation.cache import EvaluationCache
from nevis_stream.dynamic_evaluation.cache.exchange import export_npz
from nevis_stream.errors import DamagedCache

MODEL = Addition(
    kind="model",
    name="m" * 2000,
    method="sort_and_search",
    budget=16,
    seed=-7,
    models=3,
    samples=100,
    asked=16,
    accuracy=0.5,
    rank=1,
    flops_spent=7,
)
SAMPLES = Addition(
    kind="samples",
    name="9 samples",
    method="sort_and_search",
    budget=4,
    seed=1,
    models=12,
    samples=90,
    asked=36,
    reason="few",
)


def test_what_is_appended_is_read_and_a_line_that_a_kill_cut_is_left_out(tmp_path):
    assert read_additions(tmp_path) == []
    for addition in (MODEL, SAMPLES):
        append(tmp_path, addition)
    with open(tmp_path / LEDGER, "a") as file:
        file.write('{"kind": "mod')
    assert read_additions(tmp_path) == [MODEL, SAMPLES]


@pytest.mark.parametrize(
    "line, message",
    [
        ("garbage", "Expecting value"),
        ("", "Expecting value"),
        ("7", "is 7, not an object"),
        ('{"kind": "model"}', "name is missing"),
        (json.dumps(asdict(MODEL) | {"budget": "16"}), "budget is '16', not a whole number"),
        (json.dumps(asdict(MODEL) | {"budget": 16.5}), "budget is 16.5, not a whole number"),
        (json.dumps(asdict(MODEL) | {"seed": True}), "seed is True, not a whole number"),
        (json.dumps(asdict(MODEL) | {"accuracy": "high"}), "accuracy is 'high', not a number"),
        (json.dumps(asdict(MODEL) | {"accuracy": [0.5]}), "accuracy is [0.5], not a number"),
        (json.dumps(asdict(MODEL) | {"name": None}), "name is None, not a string"),
        (
            json.dumps(asdict(MODEL) | {"kind": "modle"}),
            "unknown kind 'modle'. Did you mean 'model'? Valid: model, samples",
        ),
        (json.dumps(asdict(SAMPLES) | {"name": "many"}), "name is 'many', not a number of samples"),
    ],
)
def test_a_line_that_is_no_account_is_named(tmp_path, line, message):
    cache = EvaluationCache(tmp_path / "cache", create=True)
    append(cache.directory, MODEL)
    with open(cache.directory / LEDGER, "a") as file:
        file.write(line + "\n")
    append(cache.directory, SAMPLES)
    named = f"{cache.directory / LEDGER}, line 2: not an account of an addition ("
    (result,) = cache.verify()
    assert result.startswith(named) and message in result
    (tmp_path / "other").mkdir()
    for reading in (lambda: read_additions(cache.directory), lambda: merge_additions(tmp_path / "other", cache.directory, {}),  # noqa: E501
                    lambda: export_npz(cache, tmp_path / "x.npz")):  # fmt: skip
        with pytest.raises(DamagedCache) as error:
            reading()
        assert named in str(error.value)
    assert not (tmp_path / "x.npz").exists()
