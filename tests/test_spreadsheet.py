"""Csv files that a spreadsheet opens without running anything."""

import io

import numpy as np
import pandas as pd
import pytest

from nevis_stream.storage.tables import encode_csv, quote


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1"])
def test_a_text_that_would_run_gets_a_quote(text):
    assert quote(text) == f"'{text}"


@pytest.mark.parametrize("value", [-1, -0.5, float("nan"), None, "ft_prev", "", "a=b"])
def test_everything_else_stays(value):
    assert quote(value) is value


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
