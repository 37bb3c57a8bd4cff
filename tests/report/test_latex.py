"""LaTeX tables: escaped, rounded, and narrow enough for a page."""

import doctest
import re
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nevis_stream.report import latex
from nevis_stream.report.build import write_report
from nevis_stream.report.latex import MOST_ROWS, format_document, format_table
from tests.report.synthetic import SyntheticRun, on_two_streams

PDFLATEX = shutil.which("pdflatex")
TEXTS = [
    "a\tb",
    "[1]",
    "*",
    "--out",
    '<b>"x" | y',
    "中文 Ωmega",
    "żółw Ångström ĳ ș ﬁ",
    "→ − ≥ ± … † “x” ‘y’",
    "\\ ~ ^ & % $ # _ { }",
]
TEXTS += ["a/b_c/" * 30, "L" * 400]


def cells(text):
    """The cells of each row below the headings."""
    rows = [line for line in text.splitlines() if line.endswith(r"\\") and "caption" not in line]
    return [re.split(r"(?<!\\) & ", row.removesuffix(r" \\")) for row in rows][1:]


def test_the_examples_hold():
    assert doctest.testmod(latex).failed == 0


@given(st.text(min_size=1))
@settings(max_examples=100)
def test_a_text_has_no_letter_that_means_something(text):
    [[first, _]] = cells(format_table(pd.DataFrame({"a": [text], "b": ["end"]}), "some"))
    left = re.sub(r"\\(?:[&%$#_{}]|\w+\{\})|\{[*[<>]\}|-\{\}|\$(?:\\\w+|-)\$", "", first)
    assert not set("&%$#_{}~^\\\n[*<>") & set(left)
    assert "--" not in first


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (0.30374, "0.3037"),
        (-0.5, "$-$0.5000"),
        (3, "3"),
        (np.int64(-3), "$-$3"),
        (999_999, "999999"),
        (10**21, "1.00e21"),
        (-12_345_678, "$-$12.3e6"),
        ("a\x01b", "a b"),
        (np.bool_(False), "no"),
        (None, ""),
        ("a_b", r"a\_b"),
    ],
)
def test_values_are_rounded_and_escaped(value, printed):
    frame = pd.DataFrame({"a": [value, "x"], "b": ["y", "z"]}, dtype=object)
    assert cells(format_table(frame, "some"))[0][0] == printed


def test_a_mean_and_its_deviation_are_one_column():
    frame = pd.DataFrame({"error": [0.25, 0.5], "error_std": [0.125, np.nan]})
    assert cells(format_table(frame, "some")) == [[r"0.2500 $\pm$ 0.1250"], ["0.5000"]]


def test_a_wide_table_keeps_a_few_named_columns_and_names_the_csv():
    frame = pd.DataFrame({f"column_{i}": [i] for i in range(12)} | {"label": "a", "error": 0.5})
    text = format_table(frame, "points")
    assert cells(text) == [["a", "0.5000"]]
    assert "points.csv has all rows, columns and digits" in text
    assert len(cells(format_table(frame, "others"))[0]) == 5


def test_of_methods_and_runs_the_methods_are_printed_with_names_as_long_as_fit():
    rows, label = ["method", "run", "run"], "closed_form · medium"
    frame = pd.DataFrame({"row": rows, "label": label, "n": [2, 1, 1], "error": 0.25})
    assert cells(format_table(frame, "points")) == [[r"closed\_form · medium", "2", "0.2500"]]
    frame = pd.DataFrame({"a": ["x"], "b": ["y" * 20], "c": ["z" * 60]})
    [[short, whole, cut]] = cells(format_table(frame, "some"))
    assert (short, whole) == ("x", "y" * 20)
    assert cut.count("z") == 32  # of the 33 letters that are left


@pytest.mark.parametrize("rows", [1, 3, 100])
def test_a_long_table_goes_over_several_pages(rows):
    frame = pd.DataFrame({"task_id": [f"t_{i}" for i in range(rows)], "error": 0.25})
    text = format_table(frame, "some")
    assert (r"\begin{longtable}" in text) == (rows == 100)
    assert text.count("t\\_") == rows
    assert text.count("{") == text.count("}")


def test_streams_are_named_where_there_are_several():
    frame = pd.DataFrame({"stream": ["pi&co", "full"], "stream_digest": "f", "error": [0.5, 0.25]})
    assert cells(format_table(frame, "some"))[0] == [r"pi\&co", "0.5000"]
    assert "pi" not in format_table(frame[:1], "some")


def test_a_caption_explains_the_marks_of_the_names_that_are_printed(tmp_path):
    run = SyntheticRun(learner="indep", tasks=3, meta_test=2)
    marked = run.but(learner="ft_d (stand-in: pre-trained on omniglot)", skill=0.2, start="related")
    paths = [each.write(tmp_path / str(i)) for i, each in enumerate((run, marked))]
    write_report(paths, tmp_path / "out")
    tables = {path.stem: path.read_text() for path in (tmp_path / "out/latex").glob("*.tex")}
    explained = {name for name, text in tables.items() if "pre-{}trained on omniglot" in text}
    assert explained == {name for name, text in tables.items() if "ft\\_d\\dag" in text}
    assert explained >= {"points", "pairs", "flops_to_reach"}


@pytest.mark.skipif(PDFLATEX is None, reason="pdflatex is not on PATH")
def test_every_table_compiles_and_fits_on_its_page(tmp_path):
    run = SyntheticRun(learner="Indep", tasks=5, meta_test=2, stream="full", mistakes=True)
    stand_in = "ft_d (stand-in: pre-trained on omniglot (stream omniglot), not ImageNet)"
    ours = run.but(learner=stand_in, skill=0.2, start="related")
    runs = [*on_two_streams(run, ours), run.but(seed=1, events=3)]
    write_report([r.write(tmp_path / str(i)) for i, r in enumerate(runs)], tmp_path / "out")
    folder = tmp_path / "out" / "latex"
    for name, texts in (("texts", TEXTS), ("many", TEXTS * 6)):
        frame = pd.DataFrame(
            {"a": texts, "error": np.arange(len(texts)) - 0.5, "reason": texts[::-1]}
        )
        (folder / f"{name}.tex").write_text(format_table(frame, name), encoding="utf-8")
    tables = sorted(path.stem for path in folder.glob("*.tex") if path.stem != "all_tables")
    printable = {
        path.stem
        for path in (tmp_path / "out").glob("*.csv")
        if len(pd.read_csv(path)) <= MOST_ROWS
    }
    assert set(tables) - {"texts", "many"} == printable
    document = (folder / "all_tables.tex").read_text()
    assert set(re.findall(r"\\input\{(\w+)\}", document)) == printable
    (folder / "all_tables.tex").write_text(format_document(tables))
    command = [PDFLATEX, "-interaction=nonstopmode", "-halt-on-error", "all_tables.tex"]
    for _ in range(2):  # the widths of long tables come from the run before
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=120)
    log = (folder / "all_tables.log").read_text(errors="replace")
    assert done.returncode == 0, re.findall(r"^!.*\n.*\n.*", log, flags=re.M)
    too_wide = [float(points) for points in re.findall(r"Overfull \\hbox \(([\d.]+)pt", log)]
    assert not [points for points in too_wide if points > 2], log
    assert "Float too large" not in log and "undefined" not in log
