"""What a report shows about a cache: curves from a study, the picture's order, and audits of
additions once the truth is there.
"""

import dataclasses
import io
import json

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from nevis_stream.additions.models import add_models
from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.experiments.evaluation_studies import evaluation_summary
from nevis_stream.experiments.evaluation_studies.method_study import StudyDesign, run_rows
from tests.dynamic_evaluation.making import file_asks, one_order
from tests.dynamic_evaluation.test_adding import N, ordered, table


@pytest.fixture
def cache(tmp_path):
    created = EvaluationCache(tmp_path / "cache", create=True, about={"dataset_id": "toys"})
    known = table(ordered())
    for model, row in zip(known.models[:-1], known.values, strict=False):
        created.append(model, known.samples, row)
    return created


def studied(cache, groups=None):
    """The part of a cache that is studied, and rows of a study of it."""
    design = StudyDesign(("published", "sort_and_search"), (8, 16, 64), 0.6, 2)
    matrix = dataclasses.replace(evaluation_summary.find_studied_part(cache), groups=groups)
    return matrix, pd.DataFrame(run_rows(matrix, design))


def test_the_summary_is_written_and_its_numbers_are_those_of_the_study(cache):
    matrix, study = studied(cache)
    evaluation_summary.write(cache, matrix, study, 0.6)
    result = json.loads((cache.directory / evaluation_summary.FILE).read_text())
    assert (result["models"], result["samples"], result["seeds"]) == (11, N, 2)
    curve = result["methods"]["sort_and_search"]
    assert curve["budgets"] == [8, 16, 64]
    of_16 = study[(study["method"] == "sort_and_search") & (study["budget"] == 16)]
    assert curve["mae"][1] == pytest.approx(of_16["mae"].mean())
    parts = result["decomposition"]
    assert parts["decay"]["rate"] > 0
    for total, aleatoric, epistemic in zip(
        parts["total"], parts["aleatoric"], parts["epistemic"], strict=True
    ):
        assert total <= aleatoric + epistemic + 1e-12
    assert result["correlation"] == pytest.approx(
        np.nanmean(np.corrcoef(ordered()[:11])[np.triu_indices(11, 1)])
    )


def test_an_addition_is_audited_once_its_truth_is_there(cache):
    truth = table(ordered())
    account = add_models(cache, file_asks(cache, truth, ["m11"]), 9, "sort_and_search")[0]
    assert set(evaluation_summary.audit(cache, account).values()) == {None}
    predicted = cache.matrix(["m11"], predicted=True)[0]
    cache.append("m11", truth.samples, truth.values[11])
    audit = evaluation_summary.audit(cache, account)
    assert audit["mae"] == pytest.approx((predicted != truth.values[11]).mean())
    assert audit["accuracy_error"] == pytest.approx(abs(account.accuracy - truth.values[11].mean()))
    assert (
        evaluation_summary.write(cache, *studied(cache), known_fraction=0.6)["additions"][0]["mae"]
        == audit["mae"]
    )


def test_only_the_latest_addition_of_a_model_is_told_what_its_predictions_were_worth(cache):
    truth = table(ordered())
    account = [
        add_models(cache, file_asks(cache, truth, ["m11"]), budget, "sort_and_search")[0]
        for budget in (9, 30)
    ]
    cache.append("m11", truth.samples, truth.values[11])
    first, second = evaluation_summary.write(cache, *studied(cache), known_fraction=0.6)[
        "additions"
    ]
    assert (
        first["mae"] is None and second["mae"] == evaluation_summary.audit(cache, account[1])["mae"]
    )
    assert first["accuracy_error"] == pytest.approx(
        abs(account[0].accuracy - truth.values[11].mean())
    )


def test_the_picture_has_the_best_model_on_top_and_the_easiest_sample_left():
    outcomes = np.tril(np.ones((200, 300), np.uint8), 50)[:, ::-1]
    pixels = np.asarray(
        Image.open(io.BytesIO(evaluation_summary.draw_outcomes(outcomes))).convert("L")
    ).astype(int)
    assert pixels.shape == (200, 300)
    dark = pixels < 150
    assert dark[0].sum() == outcomes.sum(axis=1).max()
    assert (np.diff(dark.sum(axis=1)) <= 0).all()
    assert (np.diff(dark.astype(int), axis=1) <= 0).all()
    few = Image.open(
        io.BytesIO(evaluation_summary.draw_outcomes(np.full((3, 2000), 255, np.uint8) * 0 + 1))
    )
    assert few.size == (480, 162)


def test_a_cache_that_is_too_small_is_refused(tmp_path):
    small = EvaluationCache(tmp_path / "small", create=True)
    small.append("a", ["s0", "s1"], [1, 0])
    with pytest.raises(BadInput, match="1 models are observed on the same 2 samples"):
        evaluation_summary.find_studied_part(small)


def test_the_parts_are_of_the_thresholded_prediction(tmp_path):
    """Without the observed outcomes in it: with all samples observed the total is the aleatoric
    part, and the epistemic one is near 0 (several thresholds may be best); with them the total
    would be 0, and the epistemic part as large as the aleatoric one."""
    outcomes = one_order(15, 80, noise=1.0)
    cache = EvaluationCache(tmp_path / "noisy", create=True)
    for row, values in enumerate(outcomes):
        cache.append(f"m{row}", [f"s{k}" for k in range(80)], values)
    matrix = evaluation_summary.find_studied_part(cache)
    design = StudyDesign(("sort_and_search",), (8, 16, 32, 80), 0.6, 3)
    study = pd.DataFrame(run_rows(matrix, design))
    parts = evaluation_summary.write(cache, matrix, study, 0.6)["decomposition"]
    epistemic, aleatoric = parts["epistemic"], parts["aleatoric"]
    assert epistemic[0] > epistemic[2] > epistemic[3] and epistemic[3] < aleatoric[3] / 4
    assert parts["total"][-1] == pytest.approx(aleatoric[-1]) and aleatoric[-1] > 0.1
    assert study.groupby("budget")["mae"].mean().iloc[-1] == 0
    assert parts["decay"]["plateau"] > 0.1


def test_siblings_are_known_or_new_together_in_the_decomposition(tmp_path):
    outcomes = np.repeat(np.random.default_rng(0).integers(0, 2, (5, 60)).astype(np.uint8), 2, 0)
    groups = np.repeat(list("abcde"), 2)
    cache = EvaluationCache(tmp_path / "runs", create=True)
    for row, group in enumerate(groups):
        samples = [f"s{k}" for k in range(60)]
        cache.append(f"m{row}", samples, outcomes[row], provenance={"group": group})
    design = StudyDesign(("sort_and_search",), (8, 16, 32), 0.6, 3)
    matrix = evaluation_summary.find_studied_part(cache)
    assert matrix.groups.tolist() == groups.tolist()
    study = pd.DataFrame(run_rows(matrix, design))
    written = evaluation_summary.write(cache, matrix, study, 0.6)
    # the same splits: what is observed is kept in the study, so its error is smaller
    measured = study.groupby("budget")["mae"].mean().to_numpy()
    assert (measured < written["decomposition"]["total"]).all()
    assert written["by_run"]
