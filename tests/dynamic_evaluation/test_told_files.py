"""Whose answers a file has, and in which units."""

import json

import numpy as np
import pytest

from nevis_stream import dynamic_evaluation as de
from nevis_stream.dynamic_evaluation.told_files import read_told_answers
from nevis_stream.errors import BadInput

SCORES = np.random.default_rng(0).integers(0, 101, (6, 4))


def write_board(path, models):
    lines = ["model,sample,score,low,high"]
    for row, name in enumerate(models):
        lines += [f"{name},q{k},{value},0,100" for k, value in enumerate(SCORES[row].tolist())]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    path = tmp_path_factory.mktemp("board") / "board.csv"
    return de.read_board(write_board(path, [f"known-{k}" for k in range(6)]))


def score(row):
    return pytest.approx({f"q{k}": value for k, value in enumerate(SCORES[row].tolist())})


def test_of_a_table_of_several_models_the_named_one_is_read(board, tmp_path):
    table = write_board(tmp_path / "new.csv", ["a", "b", "other"])
    assert read_told_answers(board, ["a", "b"], table, "b").answers == {"b": score(1)}


def test_without_a_name_all_models_of_a_table_are_of_the_session(board, tmp_path):
    table = write_board(tmp_path / "new.csv", ["a", "b"])
    answers = read_told_answers(board, ["a", "b"], table).answers
    assert answers == {"a": score(0), "b": score(1)}
    with pytest.raises(BadInput, match="unknown model 'b'"):
        read_told_answers(board, ["a"], table)


@pytest.mark.parametrize(("names", "model"), [(["a"], None), (["a"], "a"), (["a", "b"], "a")])
def test_the_only_model_of_a_table_may_have_another_name(board, tmp_path, names, model):
    table = write_board(tmp_path / "new.csv", ["org/checkpoint-5"])
    assert read_told_answers(board, names, table, model).answers == {"a": score(0)}


def test_answers_of_another_model_are_not_taken(board, tmp_path):
    table = write_board(tmp_path / "new.csv", ["b"])
    with pytest.raises(BadInput, match="'b', another model of this session"):
        read_told_answers(board, ["a", "b"], table, "a")
    table = write_board(tmp_path / "new.csv", ["b", "c"])
    with pytest.raises(BadInput, match="'a'.*b, c"):
        read_told_answers(board, ["a", "b"], table, "a")
    table = write_board(tmp_path / "new.csv", ["c"])
    with pytest.raises(BadInput, match="--model=NAME"):
        read_told_answers(board, ["a", "b"], table)


def test_lines_and_objects_name_models_as_tables_do(board, tmp_path):
    values = {"q0": 10.0, "q1": 20.0}
    lines = [f"{name},{sample},{value}\n" for name in "ab" for sample, value in values.items()]
    (tmp_path / "a.csv").write_text("model,sample,value\n" + "".join(lines))
    (tmp_path / "a.json").write_text(json.dumps({"a": values, "b": values}))
    for file in (tmp_path / "a.csv", tmp_path / "a.json"):
        both = read_told_answers(board, ["a", "b"], file)
        assert both.answers == {"a": values, "b": values} and not both.remarks
        named = read_told_answers(board, ["a", "c"], file, "a")
        assert named.answers == {"a": values}
        assert named.remarks == ("left out: the answers of 1 other model",)
        with pytest.raises(BadInput, match="unknown model 'c'"):
            read_told_answers(board, ["a", "c"], file, "c")


def test_a_model_of_another_name_is_said_and_a_known_one_is_refused(board, tmp_path):
    file = tmp_path / "other.json"
    file.write_text(json.dumps({"checkpoint-5": {"q0": 10}}))
    read = read_told_answers(board, ["a"], file)
    assert read.answers == {"a": {"q0": 10}}
    assert read.remarks == ("the answers of 'checkpoint-5' are taken for 'a'",)
    file.write_text(json.dumps({"known-3": {"q0": 10}}))
    with pytest.raises(BadInput, match="'known-3', a known model of the board.*--model=a"):
        read_told_answers(board, ["a"], file)
    assert read_told_answers(board, ["a"], file, "a").answers == {"a": {"q0": 10}}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "model,sample,value\nb,q0,1\n,q1,2\n", "line 3.*some lines name their model"),
        ("a.csv", "sample,value\n", "has no answers"),
        ("a.json", "{}", "has no answers"),
        ("a.json", '{"q0": "?"}', "null is expected"),
        ("a.json", '{"a": {"q0": "1"}}', "the value of 'q0' is no number"),
        ("a.json", '{"a": {"q0": [1]}}', "the value of 'q0' is no number"),
        ("a.json", '{"a": {"q0": true}}', "the value of 'q0' is no number"),
        ("a.json", '{"q0": 1e999}', "the value of 'q0' is no number"),
        ("a.json", '{"q0": NaN}', "NaN is no value of JSON; write null"),
        ("a.json", '{"q0": 1, "q0": 0}', "'q0' occurs twice in one object"),
        ("a.json", '{"a": {"q0": 1}, "a": {"q0": 0}}', "'a' occurs twice in one object"),
        ("a.csv", "sample,value\nq0,inf\n", "line 2: 'inf' is no number"),
    ],
)
def test_what_is_unclear_or_empty_is_refused(board, tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(BadInput, match=message):
        read_told_answers(board, ["a"], tmp_path / name)


@pytest.mark.parametrize("form", ["csv", "json"])
def test_another_metric_is_read_from_the_files_that_tell_reads(tmp_path, form):
    path = tmp_path / "board.csv"
    known = de.read_board(write_board(path, [f"known-{k}" for k in range(6)]))
    session = de.Session.start(tmp_path / "s", known, 4, method="random_mean", models=["a"])
    for ids in session:
        session.tell(dict.fromkeys(ids, 50))
    given = {f"q{k}": 10 * k for k in range(4)}
    file = tmp_path / f"new.{form}"
    if form == "json":
        file.write_text(json.dumps(given))
    else:
        file.write_text("sample,value\n" + "".join(f"{k},{v}\n" for k, v in given.items()))
    found = de.estimate_metric(session, known, file)
    assert found.value == pytest.approx(15)
    assert found == de.estimate_metric(session, known, given)
    with pytest.raises(BadInput, match="a dict, or the path"):
        de.estimate_metric(session, known, [1, 2, 3, 4])
    with pytest.raises(BadInput, match="no number on 'q0'"):
        de.estimate_metric(session, known, given | {"q0": [1, 2]})
    with pytest.raises(BadInput, match="value_range: of a file"):
        de.estimate_metric(session, known, given, value_range=(0, 1))
    with pytest.raises(BadInput, match=r"Session\("):
        de.estimate_metric(str(tmp_path / "s"), known, given)
