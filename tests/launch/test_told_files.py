"""Files of answers as people bring them, and what `tell` says where they are wrong."""

import gzip
import json

import pandas as pd
import pytest

from nevis_stream import dynamic_evaluation as de
from nevis_stream.errors import BadInput
from tests.dynamic_evaluation.session_worker import KNOWN
from tests.launch.test_evaluate_sessions import METHOD, evaluate, folder, value

__all__ = ["folder"]


@pytest.fixture
def asked(folder):
    """What a session whose name has a space asks."""
    evaluate(f"start leaderboard.csv --model=new --out='a session' --budget=12 {METHOD}")
    return evaluate("ask 'a session'").split()


def test_answers_as_people_bring_them(folder, asked):
    rows = [f"{each},{value(each)}" for each in asked]
    with gzip.open("packed.csv.gz", "wt") as file:
        file.write("\n".join(["sample,value", *rows[:2]]))
    (folder / "pandas.csv").write_text(f"sample,value\n{asked[2]},{bool(value(asked[2]))}\n")
    (folder / "a.json").write_text(json.dumps({asked[3]: bool(value(asked[3]))}))
    for name, count in (("packed.csv.gz", 2), ("pandas.csv", 1), ("a.json", 1)):
        assert f"{count} answer" in (told := evaluate(f"tell 'a session' {name}"))
        assert told.endswith("evaluate ask 'a session'\n")
    assert "4 of 12" in evaluate("status 'a session'", 1)


def test_a_value_that_is_no_outcome_is_named_by_its_line(folder, asked):
    (folder / "wrong.csv").write_text(f"sample,value\n{asked[4]},1\n{asked[5]},7\n")
    assert "wrong.csv, line 3: the model's value" in evaluate("tell 'a session' wrong.csv", 2)


def test_a_file_with_other_columns_is_told_those_that_it_needs(folder, asked):
    (folder / "names.csv").write_text(f"id,score\n{asked[4]},1\n")
    assert "it needs sample,value" in evaluate("tell 'a session' names.csv", 2)


@pytest.mark.usefixtures("folder")
def test_a_file_is_no_session():
    assert "there is no evaluation session here" in evaluate("ask leaderboard.csv", 2)


@pytest.mark.usefixtures("folder")
def test_a_budget_of_more_samples_than_there_are_is_refused():
    too_many = evaluate(f"start leaderboard.csv --model=new --out=s --budget=900 {METHOD}", 2)
    assert "there are only" in too_many


def test_true_is_no_score(folder):
    rows = [f"m{row},q{k},{(row + k) % 5 / 4}" for row in range(4) for k in range(20)]
    (folder / "scores.csv").write_text("\n".join(["model,sample,score", *rows]))
    evaluate("start scores.csv --model=new --out=s --budget=5 --method=random_mean")
    (folder / "told.csv").write_text(f"sample,value\n{evaluate('ask s').split()[0]},True\n")
    assert "'True' is no number" in evaluate("tell s told.csv", 2)


def test_tables_of_pandas_have_names(tmp_path):
    models, samples = [f"m{row}" for row in range(len(KNOWN))], [f"q{k}" for k in range(20)]
    board = de.read_board(pd.DataFrame(KNOWN[:, :20], index=models, columns=samples))
    assert board.models == models and board.samples == samples
    assert de.read_board(pd.DataFrame(KNOWN)).samples[:2] == [0, 1]
    session = de.Session.start(tmp_path / "s", board, 5, method="stratified_mean")
    ids = session.ask()
    assert session.tell(pd.Series(dict.fromkeys(ids[:3], 1.0))) == 3
    with pytest.raises(BadInput, match="by sample id, not list"):
        session.tell([1, 0])
