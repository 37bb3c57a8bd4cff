"""The page's first sentences, and the glossary that explains its words."""

import doctest
import re

import pytest

from nevis_stream.analysis.methods import list_method_points
from nevis_stream.analysis.runs import read_runs
from nevis_stream.analysis.seeds import group_by_seed
from nevis_stream.report import glossary
from nevis_stream.report.build import write_report
from nevis_stream.report.parts.answer import write_sentences
from tests.report.page_reader import Page
from tests.report.synthetic import SyntheticRun

RUN = SyntheticRun(tasks=2, meta_test=1, learner="Indep", errors=(("task_002", 0.4),))
GOOD = RUN.but(learner="FT-d", flops=500, errors=(("task_002", 0.1),))


def summary(tmp_path, *runs):
    methods = list_method_points(
        group_by_seed(read_runs([run.write(tmp_path / str(i)) for i, run in enumerate(runs)])[0])
    )
    return re.sub("<[^>]*>", "", " ".join(write_sentences(methods, 2, 1)))


def test_the_sentences_name_who_is_best_and_how_sure_that_is(tmp_path):
    text = summary(
        tmp_path,
        RUN,
        RUN.but(seed=1),
        GOOD,
        GOOD.but(budget="large", flops=10**6, errors=(("task_002", 0.2),)),
    )
    assert (
        text == "3 methods of 2 learners (FT-d, Indep), 1 to 2 seeds each, on 2 tasks; 1 is judged."
        " Lowest mean error: FT-d · small, 0.1000 (n = 1 seed), with 3.00e3 FLOPs of training."
        " On the Pareto front of error and training FLOPs, cheapest first: FT-d · small; 2"
        " others are dominated. Indep · small, which trains a network for each task alone, has a"
        " mean error of 0.4000 ± 0.0000, 0.3000 higher than FT-d · small, with 2 times the training"
        " FLOPs. One seed only, so a small difference may be chance: FT-d · small, FT-d · large."
    )


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        (
            [RUN],
            "Lowest mean error: Indep · small, 0.4000 (n = 1 seed), with 6.00e3 FLOPs of training.",
        ),
        (
            [RUN, RUN.but(learner="MT")],
            "Lowest mean error: Indep · small, MT · small, 0.4000 (n = 1 seed).",
        ),
        ([RUN.but(events=1)], "No method has a defined mean error yet"),
        ([RUN, GOOD.but(events=1)], "Every method has one seed"),
        ([RUN, GOOD.but(flops=0)], "0.4000, 0.3000 higher than FT-d · small. Every"),
    ],
)
def test_odd_sets_of_runs(tmp_path, runs, words):
    text = summary(tmp_path, *runs)
    assert words in text
    assert "nan" not in text


def test_names_are_escaped(tmp_path):
    path = RUN.but(learner="<b>&").write(tmp_path / "run")
    methods = list_method_points(group_by_seed(read_runs([path])[0]))
    assert "<strong>&lt;b&gt;&amp; · small</strong>" in " ".join(write_sentences(methods, 2, 1))


def test_every_word_with_a_tooltip_has_its_entry(tmp_path):
    assert doctest.testmod(glossary).failed == 0
    anchors = [glossary.make_anchor(term) for term in glossary.TERMS]
    assert len(set(anchors)) == len(anchors)
    page = Page(write_report([RUN.write(tmp_path / "run")], tmp_path / "out"))
    assert set(anchors) <= set(page.ids)
    terms = [
        attributes
        for tag, attributes in page.tags
        if tag == "a" and attributes.get("class") == "term"
    ]
    assert len(terms) > 5
    assert {attributes["title"] for attributes in terms} <= set(glossary.TERMS.values())
