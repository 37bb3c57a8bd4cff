"""Names of stand-ins: short and marked where that stays unique, with a note."""

import doctest

from nevis_stream.analysis import seeds
from nevis_stream.analysis.runs import read_runs
from nevis_stream.analysis.seeds import group_by_seed
from tests.report.synthetic import SyntheticRun

FIRST, SECOND = (
    f"pt_ft (stand-in: pre-trained on {data} (stream x), not ImageNet)"
    for data in ("omniglot", "mnist")
)


def test_the_examples_hold():
    assert doctest.testmod(seeds).failed == 0


def test_names_that_would_be_the_same_stay_whole():
    assert seeds.shorten_names([FIRST, "a"]) == {FIRST: "pt_ft†", "a": "a"}
    assert seeds.shorten_names([FIRST, SECOND]) == {FIRST: FIRST, SECOND: SECOND}


def test_labels_are_short_and_unique(tmp_path):
    runs = [
        SyntheticRun(learner=name).write(tmp_path / str(i))
        for i, name in enumerate(("indep", FIRST))
    ]
    assert [group.label for group in group_by_seed(read_runs(runs)[0])] == [
        "indep · small",
        "pt_ft† · small",
    ]
    runs.append(SyntheticRun(learner=SECOND).write(tmp_path / "more"))
    labels = [group.label for group in group_by_seed(read_runs(runs)[0])]
    assert len(set(labels)) == 3 and all(
        label.startswith("pt_ft† · small · ") for label in labels[1:]
    )
