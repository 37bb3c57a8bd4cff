"""Csv files that a spreadsheet opens without running anything."""

import ast
import hashlib
import io

import numpy as np
import pandas as pd
import pytest

from nevis_stream.errors import BadInput
from nevis_stream.learners.nearest_class_mean import NearestClassMean
from nevis_stream.report.templates import read_resource
from nevis_stream.runner import run
from nevis_stream.storage.tables import encode_csv, format_csv, parse_csv, quote
from nevis_stream.streams.named_streams import load_stream
from tests.test_imports import AROUND, MODULES

WRITERS = ("to_csv", "writer", "DictWriter", "savetxt", "write_csv", "to_excel")


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1"])
def test_a_text_that_would_run_gets_a_quote(text):
    assert quote(text) == f"'{text}"


@pytest.mark.parametrize("value", [-1, -0.5, float("nan"), None, "ft_prev", "", "a=b"])
def test_everything_else_stays(value):
    assert quote(value) is value


@pytest.mark.parametrize(
    "text", ["=1", "'=1", "''=1", "'tis", "-", "＝1+1", "a\x1b\r\n,b", '"', ""]
)
def test_what_was_written_is_read_as_it_was(text):
    assert parse_csv(format_csv([text, "n"], [[text, 1]])) == [{text: text, "n": "1"}]


def test_there_is_one_writer_of_csv():
    found = {
        f"{name}: {ast.unparse(node)[:60]}"
        for name, path in (MODULES | AROUND).items()
        if not name.startswith("tests") and name != "nevis_stream.storage.tables"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute | ast.alias)
        and (ast.unparse(node).rpartition(".")[2] in WRITERS)
    }
    assert not found, "use format_csv or encode_csv"
    # the page for labelling writes its own
    assert r"/^'*[=+\-@\t\r\n＝＋－＠]/.test(text)" in read_resource("label_page.js")


def test_control_characters_are_left_out():
    frame = pd.DataFrame({"na\x1b[2Jme": ["\x1b[31mred\u202e", "two\nlines"]})
    assert encode_csv(frame).decode() == 'na[2Jme\n[31mred\n"two\nlines"\n'


def test_numbers_stay_and_headings_are_quoted():
    frame = pd.DataFrame({"=name": ["-x", "y"], "n": [-1, 10**20], "e": [np.nan, -0.1]})
    text = encode_csv(frame.astype({"n": object})).decode()
    assert text == "'=name,n,e\n'-x,-1,NaN\ny,100000000000000000000,-0.1\n"
    assert pd.read_csv(io.StringIO(text))["e"].tolist()[1] == -0.1


def test_whole_numbers_beside_fractions_keep_their_digits():
    frame = pd.DataFrame({"flops": [2.5, 10_000_000_000_000_000_003, None, "=a"]}, dtype=object)
    assert encode_csv(frame).decode() == "flops\n2.5\n10000000000000000003\nNaN\n'=a\n"


def test_a_run_of_a_version_that_did_not_quote_goes_on(tmp_path):
    images = np.random.default_rng(0).integers(0, 255, (40, 6, 6, 3)).astype(np.uint8)
    np.savez(tmp_path / "a.npz", images=images, labels=np.arange(40) % 2)
    table = "order,year,task_id,dataset_id,domain,meta_split,path\n1,2001,a,a,=1+1,test,a.npz\n"
    (tmp_path / "one.csv").write_text(table)
    stream = load_stream(str(tmp_path / "one.csv"))
    run(NearestClassMean(), stream, tmp_path / "run")
    file = tmp_path / "run" / "stream.csv"
    text = file.read_text()
    assert "'=1+1" in text
    former = text.replace("'=1+1", "=1+1")
    assert stream.digest.startswith(hashlib.sha256(former.encode()).hexdigest()[:16])
    file.write_text(former)
    run(NearestClassMean(), stream, tmp_path / "run")
    assert file.read_text() == former
    file.write_text(former.replace("2001", "2002"))
    with pytest.raises(BadInput, match="another run"):
        run(NearestClassMean(), stream, tmp_path / "run")
