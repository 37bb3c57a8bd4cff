"""The part of transfer matrices: alone or with runs, and left out with the reason where it can't
be read.
"""

import numpy as np
import pandas as pd
import pytest

from nevis_stream.analysis.transfer_matrix import read_matrix
from nevis_stream.errors import BadInput
from nevis_stream.report.build import write_report
from nevis_stream.report.parts.transfer_matrix import plot_heat_map
from tests.analysis.test_transfer_matrix import write
from tests.report.page_reader import Page
from tests.report.synthetic import SyntheticRun


def test_a_matrix_alone_makes_a_page(tmp_path):
    page = Page(write_report([write(tmp_path / "<b>matrix")], tmp_path / "out", figures=True))
    assert [text for text, _ in page.column("transfer-targets-1", "Best source")] == ["a", "b", "b"]
    assert [text for text, _ in page.column("transfer-targets-1", "Its gain")] == [
        "+10.00",
        "+10.00",
        "+0.00",
    ]
    assert "indep · tiny on four, seed 3" in page.text
    assert "n = 4 pairs; mean gain +2.50 percentage points" in page.text
    assert "0 runs" in page.text
    assert "b" not in {tag for tag, _ in page.tags}
    pairs = pd.read_csv(tmp_path / "out" / "transfer_matrix.csv")
    assert len(pairs) == 5 and set(pairs["stream"]) == {"four"}
    assert (tmp_path / "out" / "figures" / "transfer_matrix_a.png").is_file()


@pytest.mark.usefixtures("undrawn")
def test_beside_runs_it_stands_behind_them_and_a_damaged_one_is_left_out(tmp_path):
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "matrix.csv").write_text("source\n")
    run = SyntheticRun().write(tmp_path / "run")
    page = Page(write_report([write(tmp_path / "matrix"), bad, run], tmp_path / "out"))
    assert (
        page.ids.index("section-1")
        < page.ids.index("section-all")
        < page.ids.index("transfer-targets-1")
    )
    assert "has no column target" in page.text and "1 run." in page.text
    with pytest.raises(BadInput, match="has no column target"):
        write_report([bad], tmp_path / "out")


def test_colours_are_centred_at_zero(tmp_path):
    picture = plot_heat_map(read_matrix(write(tmp_path))).axes[0].images[0]
    assert picture.norm.vmin == -picture.norm.vmax == pytest.approx(-10)
    assert np.isnan(np.asarray(picture.get_array().filled(np.nan))).sum() == 2
