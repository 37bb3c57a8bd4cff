"""What the page says about differences between methods, learners over budgets and repeats."""

import json

import pytest

from nevis_stream.report.build import write_report
from tests.report.page_reader import Page
from tests.report.synthetic import SyntheticRun

pytestmark = pytest.mark.usefixtures("all_undrawn")
RUN = SyntheticRun(tasks=8, meta_test=5, thumbnails=False)


def with_repeat(path):
    """Makes the run's last task a repeat of its first data set."""
    ledger = path / "ledger.jsonl"
    records = [json.loads(line) for line in ledger.read_text().splitlines()]
    trained = [record for record in records if record["kind"] == "train"]
    trained[-1]["dataset_id"] = trained[0]["dataset_id"]
    ledger.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def texts(page, table):
    """The table's rows, heading first, without the values that they sort by."""
    return [[text for text, _ in row] for row in page.tables[table]]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    root = tmp_path_factory.mktemp("comparisons")
    runs = [
        RUN.but(learner=name, seed=seed, skill=skill)
        for name, skill in (("indep", 0), ("ft", 0.2))
        for seed in (0, 1)
    ]
    runs.append(RUN.but(learner="part", events=5))
    paths = [run.write(root / str(i)) for i, run in enumerate(runs)]
    return Page(write_report([*map(with_repeat, paths[:4]), paths[4]], root / "out"))


def test_pairs_have_both_intervals_and_a_verdict(page):
    heading, row = texts(page, "pairs-1")
    assert len(heading) == len(row)
    assert row[0] == "ft · small" and row[1] == "indep · small" and row[3] == "5"
    assert " to " in row[5] and " to " in row[6] and row[8] == "A better"
    assert "part · small: no finished run" in page.text
    assert "fewer than 20 tasks" in page.text and "does not show noise" not in page.text


def test_the_page_opens_with_the_answer(page):
    answer = page.text.index("ft · small is better than indep · small: on average over")
    assert answer < page.text.index("Lowest mean error") < page.text.index("All pairs")
    assert "The comparison is at equal FLOPs." in page.text


def test_pairs_of_one_seed_say_what_one_seed_cannot_show(tmp_path):
    paths = [
        RUN.but(learner=name, skill=skill).write(tmp_path / name)
        for name, skill in (("indep", 0), ("ft", 0.2))
    ]
    assert "does not show noise" in Page(write_report(paths, tmp_path / "out")).text


def test_learners_have_an_area_and_a_ratio(page):
    assert len(page.tables["hypervolume-1"]) == 4
    assert [row[0] for row in texts(page, "reach-1")] == ["Row / column", "ft", "indep"]


def test_repeats_have_their_transfer(page):
    _, *rows = texts(page, "transfer-1")
    assert [row[0] for row in rows] == ["ft · small", "indep · small"]
    assert all("±" in row[2] for row in rows)
    assert all(row[4] == "–" for row in rows)  # one repeat has no interval
    assert "FT-prev 0.199" in page.text


def test_a_single_method_without_repeats_has_neither(tmp_path):
    page = Page(write_report([RUN.write(tmp_path / "r")], tmp_path / "out"))
    assert "pairs-1" not in page.tables and "transfer-1" not in page.tables
    assert "Differences in error between methods" not in page.text
