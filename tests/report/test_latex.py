"""LaTeX tables: escaped, aligned, rounded."""

import doctest
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nevis_stream.report import latex
from nevis_stream.report.latex import cell, escape, latex_table


def test_the_examples_hold():
    assert doctest.testmod(latex).failed == 0


@given(st.text())
@settings(max_examples=200)
def test_escaped_text_has_no_letter_that_means_something(text):
    left = re.sub(r"\\(?:[&%$#_{}]|text\w+\{\})", "", escape(text))
    assert not set("&%$#_{}~^\\\n") & set(left)


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (0.30374, "0.3037"),
        (-0.5, "$-0.5000$"),
        (3, "3"),
        (np.int64(-3), "$-3$"),
        (999_999, "999999"),
        (10**21, r"$1.00 \times 10^{21}$"),
        (-12_345_678, r"$-12.3 \times 10^{6}$"),
        ("a\x01b", "a b"),
        (float("inf"), r"$\infty$"),
        (np.bool_(False), "no"),
        (None, ""),
        (pd.NA, ""),
        ("a_b", r"a\_b"),
    ],
)
def test_cells(value, printed):
    assert cell(value) == printed


@pytest.mark.parametrize("rows", [1, 3, 100])
def test_tables_have_as_many_cells_in_every_row_as_columns(rows):
    frame = pd.DataFrame({"stream": "pi&co", "task_id": [f"t_{i}" for i in range(rows)], "error": 0.25, "empty": np.nan})
    frame["error"] += np.arange(rows)
    text = latex_table(frame, "per_task")
    lines = [line for line in text.splitlines() if line.endswith(r"\\") and "caption" not in line]
    layout = re.search(r"\\begin\{(?:tabular|longtable)\}\{(\w+)\}", text)[1]
    assert layout == ("llr" if rows == 1 else "lr")
    assert {len(re.findall(r"(?<!\\)&", line)) for line in lines} == {len(layout) - 1}
    assert len(lines) == rows + (2 if rows == 100 else 1)
    assert text.count("{") == text.count("}")
    assert ("longtable" in text) == (rows == 100)
    assert "empty" not in text
    assert rows == 1 or r"stream: pi\&co" in text
