"""Evaluation caches in the page: their picture, curves and additions; those without a summary are left out with the reason."""

import json

import pandas as pd
import pytest

from nevis_stream.dynamic_evaluation import summary
from nevis_stream.dynamic_evaluation.adding import FileOracle, add_models
from nevis_stream.dynamic_evaluation.cache import EvaluationCache
from nevis_stream.report.build import write_report
from tests.dynamic_evaluation.test_adding import ordered, table
from tests.dynamic_evaluation.test_summary import studied
from tests.report.synthetic import SyntheticRun


@pytest.fixture
def cache(tmp_path):
    made = EvaluationCache(tmp_path / "toys", create=True)
    known = table(ordered())
    for model, row in zip(known.models[:-1], known.correct, strict=False):
        made.append(model, known.samples, row)
    add_models(made, ["m11"], FileOracle(known), 9, "sort_and_search")
    made.append("m11", known.samples, known.correct[11])
    return made


def test_a_cache_is_shown_beside_runs(cache, tmp_path):
    told = summary.write(cache, studied(cache), 0.6)
    run = SyntheticRun(learner="Indep").write(tmp_path / "run")
    page = write_report([run, cache.directory], tmp_path / "out", figures=True).read_text()
    assert "Cache toys" in page
    assert "12 models × 90 samples" in page
    assert f"{told['additions'][0]['mae']:.4f}" in page
    assert page.count("data:image/png;base64,") >= 1
    written = pd.read_csv(tmp_path / "out" / "evaluation_methods.csv")
    assert set(written["method"]) == {"published", "sort_and_search"}
    assert (tmp_path / "out" / "figures" / "evaluation_budget_1.pdf").is_file()
    alone = write_report([cache.directory], tmp_path / "alone").read_text()
    assert "Error against compute on toys" in alone


def test_a_cache_without_a_sound_summary_is_left_out_with_the_reason(cache, tmp_path):
    run = SyntheticRun(learner="Indep").write(tmp_path / "run")
    page = write_report([run, cache.directory], tmp_path / "out").read_text()
    assert "an evaluation cache without a summary; make it: python -m launch.evaluate metrics" in page
    summary.write(cache, studied(cache), 0.6)
    path = cache.directory / summary.FILE
    good = json.loads(path.read_text())
    for text, said in (("{", "cannot be read"), (json.dumps(good | {"schema": 9}), "has schema 9"), ("{}", "lacks")):
        path.write_text(text)
        assert said in write_report([run, cache.directory], tmp_path / "out").read_text()
