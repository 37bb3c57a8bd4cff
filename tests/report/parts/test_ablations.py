"""The part of stream variants: a table across sections, beside the published values."""

import pandas as pd
import pytest

from nevis_stream.report.build import write_report
from tests.analysis.test_ablations import ERRORS, FULL, short
from tests.report.page_reader import Page

pytestmark = pytest.mark.usefixtures("undrawn")


def test_the_page_sets_streams_side_by_side(tmp_path):
    runs = [
        FULL,
        FULL.but(seed=1),
        short(0, ERRORS[2:]),
        FULL.but(stream="short", digest="b" * 16, task_name="other_{:03d}"),
    ]
    paths = [run.write(tmp_path / str(i)) for i, run in enumerate(runs)]
    page = Page(write_report(paths, tmp_path / "out"))
    assert [text for text, _ in page.column("ablations-1", "Stream")] == ["full", "random_40"]
    assert [text for text, _ in page.column("ablations-1", "Error compared")] == [
        "0.3500 ± 0.0000",
        "0.3500",
    ]
    assert [text for text, _ in page.column("ablations-1", "Difference")] == ["–", "+0.0000"]
    assert [text for text, _ in page.column("ablations-1", "Published FT-d")] == [
        "0.276",
        "0.282 ± 0.010 5 draws",
    ]
    assert "Compared on 2 judged tasks: task_003, task_004." in page.text
    assert "3: judges 0 of the 2 tasks that full judges, on the same data" in page.text
    frame = pd.read_csv(tmp_path / "out" / "ablations.csv")
    assert frame["published_error"].tolist() == [0.276, 0.282] and frame[
        "compared_tasks"
    ].tolist() == [2, 2]


def test_runs_of_one_stream_have_no_such_part(tmp_path):
    page = Page(write_report([FULL.write(tmp_path / "a")], tmp_path / "out"))
    assert "section-all" not in page.ids and not (tmp_path / "out" / "ablations.csv").exists()
