"""The record of additions: what is written is read, and a line that is not a record is named."""

import json
from dataclasses import asdict, replace

import pytest

from nevis_stream.errors import DamagedCache
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.additions import (
    ADDITIONS,
    Addition,
    append,
    merge_additions,
    read_additions,
)
from nevis_stream.evaluation_cache.exchange import export_npz
from nevis_stream.evaluation_cache.integrity import list_unchecked

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
    with open(tmp_path / ADDITIONS, "a") as file:
        file.write('{"kind": "mod')
    assert read_additions(tmp_path) == [MODEL, SAMPLES]


@pytest.mark.parametrize(
    "line, message",
    [
        ("garbage", "Expecting value"),
        ("", "Expecting value"),
        (json.dumps(asdict(MODEL) | {"accuraay": 0.5}), "'accuracy'"),
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
            "'modle'",
        ),
        (json.dumps(asdict(SAMPLES) | {"name": "many"}), "name is 'many', not a number of samples"),
    ],
)
def test_a_line_that_is_no_account_is_named(tmp_path, line, message):
    cache = EvaluationCache(tmp_path / "cache", create=True)
    with open(cache.directory / ADDITIONS, "w") as file:  # as an earlier version wrote it
        file.write(f"{json.dumps(asdict(MODEL))}\n{line}\n")
    append(cache.directory, SAMPLES)
    named = f"{cache.directory / ADDITIONS}, line 2: not a record of an addition ("
    (result,) = cache.verify()
    assert result.startswith(named) and message in result
    (tmp_path / "other").mkdir()
    for reading in (lambda: read_additions(cache.directory), lambda: merge_additions(tmp_path / "other", cache.directory, {}),  # noqa: E501
                    lambda: export_npz(cache, tmp_path / "x.npz")):  # fmt: skip
        with pytest.raises(DamagedCache) as error:
            reading()
        assert named in str(error.value)
    assert not (tmp_path / "x.npz").exists()


def test_every_changed_missing_or_moved_line_is_named(tmp_path):
    cache = EvaluationCache(tmp_path / "cache", create=True)
    additions = [MODEL, SAMPLES, replace(MODEL, seed=1)]
    for addition in additions:
        append(cache.directory, addition)
    file = cache.directory / ADDITIONS
    whole = file.read_bytes()
    assert cache.verify() == [] and read_additions(cache.directory) == additions
    first, second, third = whole.splitlines(keepends=True)
    for place in range(len(first) - 1):
        changed = bytes([first[place] ^ 1])
        file.write_bytes(first[:place] + changed + first[place + 1 :] + second + third)
        assert any(f"{file}, line 1: not a record" in line for line in cache.verify()), place
    for lines in ([second, third], [first, third], [second, first, third], [first, first, second]):
        file.write_bytes(b"".join(lines))
        with pytest.raises(DamagedCache, match="a line before it has changed, is missing or"):
            read_additions(cache.directory)


def test_an_earlier_account_opens_and_verify_says_what_is_not_checked(tmp_path):
    cache = EvaluationCache(tmp_path / "cache", create=True)
    file = cache.directory / ADDITIONS
    file.write_text(f"{json.dumps(asdict(MODEL))}\n")
    assert cache.verify() == [] and read_additions(cache.directory) == [MODEL]
    assert list_unchecked(cache) == [
        f"not checked, since an earlier version wrote it: 1 line of {ADDITIONS}"
    ]
    append(cache.directory, SAMPLES)
    file.write_bytes(file.read_bytes().replace(b"0.5", b"0.6"))  # in the earlier line
    with pytest.raises(DamagedCache, match="line 2: .*a line before it has changed"):
        read_additions(cache.directory)


def test_an_account_of_an_earlier_version_does_not_state_whom_it_holds_for():
    """Old lines have no such key; new ones name one of a few."""
    old = {
        **{"kind": "model", "name": "a", "method": "recommended", "budget": 8, "seed": 0},
        **{"models": 5, "samples": 9, "asked": 8, "accuracy": 0.5},
    }
    assert Addition.from_json(old).holds_for is None
    assert Addition.from_json(old | {"holds_for": "any model"}).holds_for == "any model"
    with pytest.raises(ValueError, match="holds_for"):
        Addition.from_json(old | {"holds_for": "all"})
