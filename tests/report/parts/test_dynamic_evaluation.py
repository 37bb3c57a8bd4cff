"""Evaluation caches in the page: their picture, curves and additions; those without a summary are
left out with the reason.
"""

import json
import re
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from nevis_stream.additions.models import add_models
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.experiments.evaluation_studies import evaluation_summary
from nevis_stream.experiments.evaluation_studies import report_of_caches as dynamic_evaluation
from nevis_stream.experiments.evaluation_studies.report_of_caches import summarise_additions
from nevis_stream.queries.oracle import MatrixOracle
from nevis_stream.report.build import write_report
from nevis_stream.report.summaries import Evaluation
from tests.dynamic_evaluation.making import file_asks
from tests.dynamic_evaluation.test_adding import ordered, table
from tests.experiments.evaluation_studies.test_evaluation_summary import studied
from tests.report.synthetic import SyntheticRun


@pytest.fixture
def cache(tmp_path):
    return make_cache(tmp_path / "toys")


def make_cache(directory):
    created = EvaluationCache(directory, create=True)
    known = table(ordered())
    for model, row in zip(known.models[:-1], known.values, strict=False):
        created.append(model, known.samples, row)
    add_models(created, file_asks(created, known, ["m11"]), 9, "sort_and_search")
    created.append("m11", known.samples, known.values[11])
    return created


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """A cache with its summary, and its pages beside a run and alone."""
    folder = tmp_path_factory.mktemp("shown")
    cache = make_cache(folder / "toys")
    summary = evaluation_summary.write(cache, *studied(cache), known_fraction=0.6)
    run = SyntheticRun(learner="Indep").write(folder / "run")
    beside = write_report([run, cache.directory], folder / "out", figures=True).read_text()
    alone = write_report([cache.directory], folder / "alone").read_text()
    return SimpleNamespace(
        addition=summary["additions"][0], out=folder / "out", beside=beside, alone=alone
    )


def test_a_cache_is_shown_beside_runs(shown):
    page = shown.beside
    assert "Cache toys" in page and "12 models × 90 samples" in page
    assert f"{shown.addition['mae']:.4f}" in page
    assert "Estimated accuracies of new models against the true ones on toys" in page
    assert "1 run, 1 cache" in page and "In dynamic evaluation: The number of samples" in page


def test_tables_of_a_cache_have_its_additions_and_its_methods(shown):
    worth = pd.read_csv(shown.out / "evaluation_overview.csv").loc[0]
    assert (worth["method"], worth["asked"], worth["new"], worth["judged"]) == (
        "sort_and_search",
        9,
        1,
        1,
    )
    assert worth["mae"] == pytest.approx(shown.addition["mae"])
    written = pd.read_csv(shown.out / "evaluation_methods.csv")
    assert set(written["method"]) == {"published", "sort_and_search"}


def test_figures_of_a_cache_are_in_the_page_and_in_files(shown):
    figures = shown.out / "figures"
    assert shown.beside.count("data:image/png;base64,") >= 1
    assert (figures / "evaluation_truth_1.png").is_file()
    assert (figures / "evaluation_budget_1.pdf").is_file()
    names = re.findall(r'data-figure="([^"]*)"', shown.beside)
    evaluations = {name for name in names if name.startswith("evaluation")}
    assert evaluations == {path.stem for path in figures.glob("evaluation*.png")}


def test_a_page_of_a_cache_alone_speaks_of_nothing_else(shown):
    for text in (
        "<h1>Dynamic evaluation on the cache toys</h1>",
        "<title>Dynamic evaluation on the cache toys</title>",
        "<p>1 cache.",
        "<h2>Dynamic evaluation</h2>",
        '<dt id="term-budget">Budget</dt>\n<dd>The number of samples on which',
    ):
        assert text in shown.alone, text
    assert "Across streams" not in shown.alone and ">Training FLOPs</dt>" not in shown.alone


@pytest.mark.parametrize("term", ["MAE", "Spearman", "Kendall", "covered"])
def test_terms_of_a_cache_are_explained_alone_and_beside_runs(shown, term):
    assert f">{term}</dt>" in shown.alone and f">{term}</dt>" in shown.beside


def test_additions_are_shown_in_the_range_of_their_scores(tmp_path):
    percent = EvaluationCache(tmp_path / "percent", create=True)
    known, ends = table(ordered()), {"low": 0.0, "high": 100.0}
    scores = known.values.astype(np.float32)
    percent.append_rows(known.models[:-1], known.samples, scores[:-1], sample_provenance=ends)
    asks = {known.models[-1]: MatrixOracle(scores[-1:])}
    (account,) = add_models(percent, asks, 30, "random_mean")
    (row,) = evaluation_summary._summarise_additions(percent)
    shown = dynamic_evaluation._describe_addition(row)
    for name in ("accuracy", "low", "high"):
        assert shown[name] == pytest.approx(100 * getattr(account, name))
    assert shown["truth"] is None
    del row["range"]  # a summary of an earlier version
    assert dynamic_evaluation._describe_addition(row)["accuracy"] == account.accuracy


def test_additions_are_told_together(cache):
    account = {
        "kind": "model",
        "method": "a",
        "asked": 5,
        "models": 9,
        "samples": 90,
        "accuracy": 0.5,
    }
    judged = {
        "mae": 0.1,
        "accuracy_error": 0.2,
        "low": 0.4,
        "high": 0.6,
        "flops_spent": 10,
        "flops_saved": 30,
    }
    unknown = dict.fromkeys([*judged, "truth"])
    rows = [
        {**account, **judged, "name": "early", "truth": 0.1},
        {**account, **judged, "name": "early", "truth": 0.55},  # recorded again: the latest counts
        {**account, **judged, "name": "outside", "truth": 0.7, "mae": 0.3},
        {**account, **unknown, "name": "unjudged", "flops_spent": 10, "flops_saved": 30},
        {**account, **unknown, "name": "other", "method": "b"},
        {**account, **unknown, "name": "9 samples", "kind": "samples"},
    ]
    a, b = summarise_additions([Evaluation(cache.directory, {"about": {}, "additions": rows}, "")])
    assert (a["new"], a["judged"], a["inside"], a["intervals"], a["share_saved"]) == (
        3,
        2,
        1,
        2,
        0.75,
    )
    assert a["mae"] == pytest.approx(0.2)
    assert (b["new"], b["intervals"]) == (1, 0)
    assert all(
        pd.isna(b[name]) for name in ("mae", "inside", "flops_spent", "flops_saved", "share_saved")
    )


@pytest.mark.usefixtures("undrawn")
def test_a_cache_without_a_sound_summary_is_left_out_with_the_reason(cache, tmp_path):
    run = SyntheticRun(learner="Indep").write(tmp_path / "run")
    page = write_report([run, cache.directory], tmp_path / "out").read_text()
    assert (
        "an evaluation cache without a summary; to make one: python -m launch.evaluate metrics"
        in page
    )
    evaluation_summary.write(cache, *studied(cache), known_fraction=0.6)
    path = cache.directory / evaluation_summary.FILE
    good = json.loads(path.read_text())
    for text, output in (
        ("{", "cannot be read"),
        (json.dumps(good | {"schema": 9}), "has schema 9"),
        ("{}", "lacks"),
    ):
        path.write_text(text)
        assert output in write_report([run, cache.directory], tmp_path / "out").read_text()
