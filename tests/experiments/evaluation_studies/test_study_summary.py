"""What a study says: errors, ties with the best, and which method to use."""

import numpy as np
import pandas as pd
import pytest

from nevis_stream.experiments.evaluation_studies import method_study, study_summary
from nevis_stream.experiments.evaluation_studies.model_splits import ModelSplit
from nevis_stream.queries.samples import SampleFacts
from tests.dynamic_evaluation.making import one_order

MATRIX = method_study.StudiedMatrix("m", one_order(20, 60))


def row(method, seed, error, budget=8, flops=100.0):
    return {
        "matrix": "m",
        "method": method,
        "budget": budget,
        "seed": seed,
        "mae": 0.1,
        "accuracy_error": error,
        "spearman": 1.0,
        "kendall": 1.0,
        "coverage95": 0.95,
        "seconds": 1.0,
        "dataset_errors": {},
        "flops": flops,
    }


def summary(rows, **more):
    names = tuple({each["method"] for each in rows})
    design = method_study.StudyDesign(names, (8,), seeds=10, **more)
    return study_summary.summarise([MATRIX], design, pd.DataFrame(rows))


def test_the_best_is_named_with_what_cannot_be_distinguished_from_it_and_is_cheaper():
    noise = np.random.default_rng(0).normal(size=(3, 10)) * 1e-3
    rows = [
        each
        for seed in range(10)
        for each in (
            row("strata+mean", seed, 0.050 + noise[0, seed]),
            row("recommended", seed, 0.020 + noise[1, seed], flops=9e9),
            row("quadrature", seed, 0.0203 + noise[2, seed], flops=1e6),
            row("single_order_floor", seed, 0.001),
        )
    ]
    found = summary(rows)
    cells = {cell["method"]: cell for cell in found["matrices"][0]["cells"]}
    assert [cells[name]["among_best"] for name in ("recommended", "quadrature")] == [True, True]
    assert not cells["strata+mean"]["among_best"]
    assert np.isclose(cells["recommended"]["error"], 0.020 + noise[1].mean())
    assert np.isclose(cells["recommended"]["error_sem"], noise[1].std(ddof=1) / np.sqrt(10))
    assert found["advice"].startswith("Use recommended: on m, at budget 8,")
    assert "1 of the other 2 methods is nowhere" in found["advice"]
    assert "quadrature is the cheapest of these: 1.00e6 FLOPs instead of 9.00e9" in found["advice"]
    assert found["pairs"]["recommended"] == ["error", "combination"]


def test_a_bound_is_no_advice():
    found = summary([row("published", 0, 0.1), row("single_order_floor", 0, 0.0)])
    assert found["advice"] == "Only bounds were studied: none of them is a method to use."


def test_differences_need_more_than_the_plain_paired_test():
    """The corrected variance is larger by the ratio of new to known models."""
    differences = np.array([0.9, 1.1, 1.3, 0.5, 0.4, -0.1])
    assert study_summary.is_worse(differences, 0.0)
    assert not study_summary.is_worse(differences, 1.0)
    assert not study_summary.is_worse(differences[:1], 0.0)


@pytest.mark.slow
def test_cold_start_hides_data_sets_from_known_models_alone():
    facts = SampleFacts(60, dataset=np.repeat(["a", "b"], 30))
    matrix = method_study.StudiedMatrix("m", one_order(20, 60), None, facts)
    seen = matrix.select_known(np.arange(12), np.arange(60), facts.dataset == "a")
    assert (seen.values[:, :30] == 255).all() and (seen.values[:, 30:] != 255).all()
    assert (matrix.values != 255).all()
    names = ["stratified_mean", "linear_gaussian", "irt_2pl", "recommended", "copy_nearest"]
    design = method_study.StudyDesign(names, (10,), seeds=1, hide="a")
    errors = {
        each["method"]: each["accuracy_error"] for each in method_study.run_rows(matrix, design)
    }
    assert set(errors) == set(names) and max(errors.values()) < 0.3
    open_design = method_study.StudyDesign(["irt_2pl"], (10,), seeds=1)
    (open_row,) = method_study.run_rows(matrix, open_design)
    assert open_row["accuracy_error"] != errors["irt_2pl"] and open_row["flops"] > 0


def test_a_biased_study_learns_from_one_kind():
    groups = np.repeat(["x", "y"], 10)
    matrix = method_study.StudiedMatrix("m", one_order(20, 60), groups)
    split = ModelSplit.parse("biased:x")
    design = method_study.StudyDesign(["random_mean"], (10,), 0.8, seeds=1, model_split=split)
    found = study_summary.summarise(
        [matrix], design, pd.DataFrame(method_study.run_rows(matrix, design))
    )
    assert found["matrices"][0]["known_models"] == 8 and found["matrices"][0]["new_models"] == 10
    assert "kind x known" in found["split"]
    # the known models are all of one group, so each is a group of its own in cross-validation
    known, _ = method_study.split(matrix, design, 0)
    assert known.groups is None


def test_one_split_distinguishes_nothing():
    """Rows of other seeds are repetitions on the same known models."""
    years = np.arange(20).astype(str)
    matrix = method_study.StudiedMatrix("m", one_order(20, 60), columns={"year": years})
    rows = [
        each
        for seed in range(10)
        for each in (row("strata+mean", seed, 0.05), row("recommended", seed, 0.02))
    ]
    names = ("strata+mean", "recommended")
    split = ModelSplit.parse("by:year")
    design = method_study.StudyDesign(names, (8,), seeds=10, model_split=split)
    found = study_summary.summarise([matrix], design, pd.DataFrame(rows))
    cells = found["matrices"][0]["cells"]
    assert all(cell["among_best"] and cell["error_sem"] is None for cell in cells)
    assert found["advice"].endswith("one split of the models, so differences cannot be tested.")
