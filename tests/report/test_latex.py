"""LaTeX tables: escaped, aligned, rounded."""

import doctest
import re
import shutil
import subprocess

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nevis_stream.report import latex_text
from nevis_stream.report.build import write_report
from nevis_stream.report.latex import latex_document, latex_table
from nevis_stream.report.latex_text import breakable, cell, escape, mean_and_std
from tests.report.synthetic import SyntheticRun

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
]
TEXTS += ["a/b_c/" * 30, "L" * 400]


def test_the_examples_hold():
    assert doctest.testmod(latex_text).failed == 0


@given(st.text())
@settings(max_examples=200)
def test_escaped_text_has_no_letter_that_means_something(text):
    left = re.sub(
        r"\\(?:[&%$#_{}]|text\w+\{\})|\{[*[]\}|-\{\}|\$(?:\\[gl]eq|-)\$", "", escape(text)
    )
    assert not set("&%$#_{}~^\\\n[*<>|") & set(left)
    assert "--" not in escape(text)
    assert breakable(escape(text), 5).replace(r"\allowbreak{}", "") == escape(text)


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


@pytest.mark.parametrize(
    ("mean", "std", "printed"),
    [
        (0.25, 0.125, r"$0.2500 \pm 0.1250$"),
        (-0.25, 0.0, r"$-0.2500 \pm 0.0000$"),
        (0.25, np.nan, "0.2500"),
        (None, 0.1, ""),
        (12_300_000, 400_000.0, r"$(12.3 \pm 0.4) \times 10^{6}$"),
        (10**21, 10**19, r"$(1.00 \pm 0.01) \times 10^{21}$"),
    ],
)
def test_a_mean_and_its_deviation_share_a_power_of_ten(mean, std, printed):
    assert mean_and_std(mean, std) == printed


@pytest.mark.parametrize("rows", [1, 3, 100])
def test_tables_have_as_many_cells_in_every_row_as_columns(rows):
    frame = pd.DataFrame(
        {
            "stream": "pi&co",
            "task_id": [f"t_{i}" for i in range(rows)],
            "error": 0.25,
            "empty": np.nan,
        }
    )
    frame["error"] += np.arange(rows)
    text = latex_table(frame, "per_task")
    lines = [line for line in text.splitlines() if line.endswith(r"\\") and "caption" not in line]
    layout = re.search(r"\\begin\{(?:tabular|longtable)\}\{(\w+)\}", text)[1]
    assert layout == ("llr" if rows == 1 else "lr")
    assert {len(re.findall(r"(?<!\\)&", line)) for line in lines} == {len(layout) - 1}
    assert len(lines) == rows + (2 if rows == 100 else 1)
    assert text.count("{") == text.count("}")
    assert (r"\begin{longtable}" in text) == (rows == 100)
    assert "empty" not in text
    assert rows == 1 or r"stream: pi\&co" in text


def test_what_a_row_need_not_repeat_stands_once():
    """Deviations beside their means, one directory of all paths, long remarks as notes, a label
    instead of its parts.
    """
    why = "so long a reason that it would fill the table if it stood in every row of it"
    rows = [
        {
            "label": f"l{i} · small",
            "learner": f"l{i}",
            "budget": "small" if i else "large",
            "error": 0.5,
            "error_std": i / 10,
        }
        | {"run": f"/data/of/me/run{i}", "reason": [why, "short", why][i]}
        for i in range(3)
    ]
    text = latex_table(pd.DataFrame(rows), "some")
    assert "label & error & run & reason" in text
    assert r"l1 · small & $0.5000 \pm 0.1000$ & run1 & short \\" in text
    assert r"l2 · small & $0.5000 \pm 0.2000$ & run2 & (1) \\" in text
    assert text.count("so long a reason") == 1 and "(1) so long" in text
    assert "run: below /" in text and "run" in text
    behind = text[text.index(r"\end{tabular}") :]
    # below the table, not beside it
    assert behind.startswith(r"\end{tabular}\par") and "(1) so long" in behind


def test_wide_tables_lie_on_their_side_and_break_their_texts():
    wide = pd.DataFrame({f"column {i}": ["some words of a text", "x" * i] for i in range(12)})
    text = latex_table(wide, "wide")
    assert text.index(r"\begin{landscape}") < text.index(r"\begin{longtable}") and "p{" in text
    assert r"\begin{landscape}" not in latex_table(wide.iloc[:, :2], "narrow")


@pytest.mark.skipif(PDFLATEX is None, reason="pdflatex is not on PATH")
def test_every_table_compiles_and_fits_on_its_page(tmp_path):
    run = SyntheticRun(learner="Indep", tasks=5, meta_test=2, stream="full", mistakes=True)
    stand_in = "ft_d (stand-in: pre-trained on omniglot (stream omniglot), not ImageNet)"
    ours = run.but(learner=stand_in, skill=0.2, start="related")
    other = {"digest": "f" * 16, "stream": "remove_first_30", "skip": 3}
    runs = [
        run,
        ours,
        ours.but(seed=1),
        run.but(**other),
        ours.but(**other),
        run.but(seed=1, events=3),
    ]
    write_report([r.write(tmp_path / str(i)) for i, r in enumerate(runs)], tmp_path / "out")
    folder = tmp_path / "out" / "latex"
    for name, texts in (("texts", TEXTS), ("many", TEXTS * 6)):
        frame = pd.DataFrame(
            {"a": texts, "error": np.arange(len(texts)) - 0.5, "reason": texts[::-1]}
        )
        (folder / f"{name}.tex").write_text(latex_table(frame, name), encoding="utf-8")
    tables = sorted(path.stem for path in folder.glob("*.tex") if path.stem != "all_tables")
    document = (folder / "all_tables.tex").read_text()
    assert set(re.findall(r"\\input\{(\w+)\}", document)) == set(tables) - {"texts", "many"}
    (folder / "all_tables.tex").write_text(latex_document(tables))
    command = [PDFLATEX, "-interaction=nonstopmode", "-halt-on-error", "all_tables.tex"]
    for _ in range(2):  # the widths of long tables come from the run before
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=120)
    log = (folder / "all_tables.log").read_text(errors="replace")
    assert done.returncode == 0, re.findall(r"^!.*\n.*\n.*", log, flags=re.M)
    too_wide = [float(points) for points in re.findall(r"Overfull \\hbox \(([\d.]+)pt", log)]
    assert not [points for points in too_wide if points > 2], log
    assert "Float too large" not in log and "undefined" not in log
