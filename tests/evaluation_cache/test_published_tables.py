"""Tables as leaderboards publish them: what is read as another thing is said, or refused."""

import os
from pathlib import Path

import numpy as np
import pytest

from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.exchange import import_file
from nevis_stream.evaluation_cache.files import read_values
from nevis_stream.evaluation_cache.records import Imported

CASES = Path(os.environ.get("NEVIS_STREAM_SHARED", "../shared")) / "cases/evaluation"


def _read(tmp_path, text, encoding="utf-8", **more):
    path = tmp_path / "board.csv"
    path.write_bytes(text.encode(encoding))
    return read_values(path, **more)


def _lines(table):
    return Imported("board.csv", table.remarks, table.left_out).lines()


@pytest.mark.parametrize(
    "text, models, samples, left_out",
    [
        (
            "model,average,q1,q2,q3\na,0.667,1,1,0\nb,0.333,0,1,0\n",
            ["a", "b"],
            ["q1", "q2", "q3"],
            ["columns of summaries (1): 'average'"],
        ),
        (
            "model,q1,q2\na,1,0\nb,0,1\nAverage,0.5,0.5\n",
            ["a", "b"],
            ["q1", "q2"],
            ["rows of summaries (1): 'Average' in line 4"],
        ),
        ("model,correct,q1,q2\na,1,1,1\nb,0,0,0\n", ["a", "b"], ["q1", "q2"], ["'correct'"]),
        (
            "Unnamed: 0,rank,model,Average ⬆️,q1\n0,1,a,1,1\n1,2,b,0,0\n",
            ["a", "b"],
            ["q1"],
            ["columns of summaries (3), for example 'Unnamed: 0'"],
        ),
        (  # a mean by another name
            "model,q1,q2,q3,all_tasks\na,1,0,0,0.333\nb,1,1,0,0.667\nc,1,1,1,1\n",
            ["a", "b", "c"],
            ["q1", "q2", "q3"],
            ["columns that are the mean of the others (1): 'all_tasks'"],
        ),
        (
            "model,sample,outcome\na,1,1\na,Overall,1\nb,1,0\nMEAN,1,1\n",
            ["a", "b"],
            ["1"],
            ["rows of summaries (1): 'MEAN' in line 5", "(1): 'Overall' in line 3"],
        ),
        (
            "model;q1;q2;Mittelwert;Rang\nA;0;1;0,5;1\nB;1;0;0,5;1\nDurchschnitt;0,5;0,5;0,5;\n",
            ["A", "B"],
            ["q1", "q2"],
            ["rows of summaries (1): 'Durchschnitt' in line 4", "(2), for example 'Mittelwert'"],
        ),
        (
            "model,q1,Moyenne,macro avg,Mean (%)\na,0,0,0,0\nb,1,1,1,100\nAverage (all),.5,,,\n",
            ["a", "b"],
            ["q1"],
            ["'Average (all)' in line 4", "columns of summaries (3), for example 'Moyenne'"],
        ),
        (  # a mean of models by another name
            "model,q1,q2,q3\na,1,0,1\nb,1,1,0\nc,0,0,0\nfield,0.667,0.333,0.333\n",
            ["a", "b", "c"],
            ["q1", "q2", "q3"],
            ["rows that are the mean of the others (1): 'field'"],
        ),
    ],
)
def test_summaries_are_no_samples_and_no_models(text, models, samples, left_out, tmp_path):
    table = _read(tmp_path, text)
    assert (table.models, table.samples) == (models, samples)
    assert table.values.dtype == np.uint8
    assert len(table.left_out) == len(left_out)
    for each, expected in zip(table.left_out, left_out, strict=True):
        assert expected in each.line()


def test_names_with_other_words_are_no_summaries(tmp_path):
    table = _read(tmp_path, "model,mean reversion,score 2,sum_1\nTotal Recall,1,0,1\nb,0,1,1\n")
    assert table.models == ["Total Recall", "b"] and len(table.samples) == 3


def test_a_direction_by_another_name_is_answered_with_the_column(tmp_path):
    text = "model,sample,score,direction\na,1,0.5,lower\n"
    with pytest.raises(BadInput, match=r"`higher_is_better` \(true or false\) instead of 'direct"):
        _read(tmp_path, text)


def test_a_column_of_outcomes_is_no_mean_of_the_others(tmp_path):
    text = "model,q1,q2,q3,q4\na,1,1,1,1\nb,0,0,0,0\nc,1,0,1,0\n"
    assert len(_read(tmp_path, text).samples) == 4


def test_text_columns_are_named_and_can_be_ignored(tmp_path):
    text = "model,license,q1,q2\na,MIT,1,0\nb,,0,1\n"
    with pytest.raises(BadInput, match="line 2: .* sample 'license': 'MIT' is not a number"):
        _read(tmp_path, text)
    table = _read(tmp_path, text, ignored=["license"])
    assert table.samples == ["q1", "q2"]
    assert "left out: columns of --ignore_columns (1): license" in _lines(table)
    with pytest.raises(BadInput, match="--ignore_columns=licence: .*'licence'"):
        _read(tmp_path, text, ignored=["licence"])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("separator", [";", "\t", ","])
def test_semicolons_tabs_and_byte_order_marks_are_read(encoding, separator, tmp_path):
    text = "model,q1,q2\na,0,1\nb,1,0\n".replace(",", separator)
    table = _read(tmp_path, text, encoding)
    assert (table.models, table.samples) == (["a", "b"], ["q1", "q2"])
    assert table.values.tolist() == [[0, 1], [1, 0]]


def test_decimal_commas_are_read_where_semicolons_separate_and_refused_elsewhere(tmp_path):
    table = _read(tmp_path, "model;sample;score\na;1;0,25\nb;1;0,5\n")
    assert table.values.tolist() == [[0.25], [0.5]]
    assert "semicolons separate the fields, and commas stand before decimals" in _lines(table)
    with pytest.raises(BadInput, match=r"line 3.*'0.5', but '0,25' in line 2: commas and points"):
        _read(tmp_path, "model;sample;score\na;1;0,25\nb;1;0.5\n")
    with pytest.raises(BadInput, match="line 2.*'0,25' is not a number; .* where semicolons separ"):
        _read(tmp_path, 'model,sample,score\na,1,"0,25"\n')
    with pytest.raises(BadInput, match="'1,234' is not a number; write numbers without thousands"):
        _read(tmp_path, 'model,q1\na,"1,234"\n')
    assert _read(tmp_path, "model,q1\na,1\n", "utf-16").models == ["a"]


def test_percent_signs_are_percentages(tmp_path):
    table = _read(tmp_path, "model,mmlu,gsm8k\na,83%,70 %\nb,60%,55.5%\n")
    assert table.facts.high.tolist() == [100, 100]
    assert table.values[1, 1] == pytest.approx(0.555)
    assert any(line.startswith("percent signs: the values of 2 samples") for line in _lines(table))
    with pytest.raises(BadInput, match="line 3.*'0.6', but other values of this sample are"):
        _read(tmp_path, "model,mmlu\na,83%\nb,0.6\n")
    with pytest.raises(BadInput, match="line 3.*'0.6', but other values of this sample are"):
        _read(tmp_path, "model,sample,score\na,mmlu,83%\nb,mmlu,0.6\n")


def test_words_for_missing_values_are_unknown_and_counted(tmp_path):
    table = _read(tmp_path, "model,q1,q2,q3\na,1,-,N/A\nb,–,0,\nc,1,1,nan\n")
    assert table.values.tolist() == [[1, 255, 255], [255, 0, 255], [1, 1, 255]]
    lines = _lines(table)
    assert "1 cell with '-' is unknown" in lines and "1 cell with 'N/A' is unknown" in lines


def test_true_and_false_beside_numbers(tmp_path):
    table = _read(tmp_path, "model,q1,q2\na,TRUE,False\nb,1,0\n")
    assert table.values.tolist() == [[1, 0], [1, 0]]
    assert "2 cells with true or false, beside 2 with 1 or 0: read as 1 and 0" in _lines(table)
    assert not any("true or false" in x for x in _lines(_read(tmp_path, "model,q1\na,True\n")))
    with pytest.raises(BadInput, match="'True' beside the number 0.5"):
        _read(tmp_path, "model,q1,q2\na,True,0.5\n")
    header = "model,dataset,sample,metric,score"
    _read(tmp_path, f"{header}\na,x,1,exact,True\na,y,1,F1,0.5\n")  # two metrics
    with pytest.raises(BadInput, match="'Yes' is not a number; of words only true and false are"):
        _read(tmp_path, "model,q1\na,Yes\n")


def test_shares_beside_percentages_are_refused(tmp_path):
    text = "model,q1,q2,q3\na,83,70,55\nb,0.6,0.55,0.9\n"
    with pytest.raises(BadInput, match="line 3: the values of model 'b' are up to 0.9, those"):
        _read(tmp_path, text, value_range=(0, 100))
    assert _read(tmp_path, "model,q1,q2,q3\na,83,70,5\nb,0,0,1\n", value_range=(0, 100)).models


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("model,q1,q2,q3\nb,0.6,0.55,0.9\n", "at most 0.9 of b"),  # a second file of one board
        (  # too few values of a data set to tell
            "model,dataset,sample,score\na,x,1,83\nb,x,1,0.7\na,y,1,0.5\nb,y,1,60\n",
            "at most 0.7 of b on x, a on y",
        ),
        ("model,t1,t2,t3\na,83,0.91,77.5\nb,71,0.93,80\n", "at most 0.93 of sample t2"),
    ],
)
def test_what_may_be_a_fraction_or_a_percentage_is_said(text, named, tmp_path):
    said = _read(tmp_path, text, value_range=(0, 100)).remarks
    assert [each for each in said if "percentages or fractions?" in each and named in each]
    said = _read(tmp_path, text.replace("0.", "20."), value_range=(0, 100)).remarks
    assert not any("percentages or fractions?" in each for each in said)


def test_trials_are_averaged(tmp_path):
    text = "model,sample,trial,outcome\na,t1,0,1\na,t1,1,0\na,t2,0,1\na,t2,1,\n"
    table = _read(tmp_path, text)
    assert table.values.tolist() == [[0.5, 1]]
    assert "the values of each cell are the means of its 2 trials (`trial`)" in _lines(table)
    uneven = _read(tmp_path, text.replace("trial", "epoch") + "a,t2,2,1\nb,t1,0,1\n")
    assert any("of its 1 to 3 trials (`epoch`)" in line for line in _lines(uneven))
    wide = _read(tmp_path, "model,epoch,t1,t2\na,1,1,1\na,2,0,\nb,1,0,1\n")
    assert wide.models == ["a", "b"] and wide.values.tolist() == [[0.5, 1], [0, 1]]
    with pytest.raises(BadInput, match="line 3: .* has the outcome 0, but 1 in line 2; number"):
        _read(tmp_path, "model,sample,outcome\na,t1,1\na,t1,0\n")


@pytest.mark.parametrize("name", ["wide_csv_summary_column", "repeated_trials_in_csv"])
def test_the_published_inputs(name, tmp_path):
    if not (CASES / name).is_dir():
        pytest.skip(f"{CASES / name} is not there")
    for path in sorted((CASES / name).glob("*.csv")):
        if path.name == "trials_without_column.csv":
            continue
        table = import_file(
            tmp_path / path.stem, path, value_range=(0, 100) if "rank" in path.name else None
        )
        cache = EvaluationCache(tmp_path / path.stem)
        assert not {"rank", "average", "correct"} & set(table.samples)
        assert "Average" not in cache.models()
        assert cache.imports()[0].left_out or "trials" in path.name


def test_grades_of_a_table_are_mapped_or_refused(tmp_path):
    text = "model,q1,q2\na,A,F\nb,B,0.5\n"
    with pytest.raises(BadInput, match="'A' is not a number; .* --grades"):
        _read(tmp_path, text)
    table = _read(tmp_path, text, grades={"A": 1, "B": 0.75, "F": 0})
    assert table.values.tolist() == [[1, 0], [0.75, 0.5]]
