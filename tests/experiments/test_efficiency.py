"""Intervals that are scaled to equal coverage, on made records."""

import numpy as np
import pandas as pd
import pytest

from nevis_stream.experiments.evaluation_studies import efficiency


def made(method, widths, error, kind="like", budget=20):
    """Returns 20 rows of each matrix, whose errors are 0.05, 0.1, …, 1 times one number."""
    return pd.concat(
        pd.DataFrame(
            {"kind": kind, "matrix": matrix, "budget": budget, "method": method, "width": width}
            | {"error": error * np.arange(1, 21) / 20}
        )
        for matrix, width in widths.items()
    )


def test_scaled_intervals_have_the_coverage():
    rows = made("ours", {"a": 0.2, "b": 0.4}, 0.3)
    scale = efficiency.factor(rows)
    covered = rows["error"] <= scale * rows["width"] / 2 + 1e-12
    assert covered.mean() == pytest.approx(0.95, abs=1 / 40)
    tighter = rows["error"] <= 0.97 * scale * rows["width"] / 2
    assert tighter.mean() < 0.95


def test_each_matrix_weighs_the_same():
    many = pd.concat([made("ours", {"a": 0.2}, 0.01)] * 50 + [made("ours", {"b": 0.2}, 0.3)])
    few = pd.concat([made("ours", {"a": 0.2}, 0.01), made("ours", {"b": 0.2}, 0.3)])
    assert efficiency.factor(many) == pytest.approx(efficiency.factor(few))


def test_an_interval_without_width_that_is_wrong_cannot_be_scaled():
    wrong = made("ours", {"a": 0.0}, 0.1)
    assert efficiency.factor(wrong) == np.inf
    assert efficiency.factor(wrong.assign(error=0.0)) == 0


def test_widths_are_relative_at_equal_coverage_in_the_geometric_mean():
    """Ours are half as wide on one matrix, twice on the other, and err a quarter as much."""
    rows = pd.concat(
        [
            made("ours", {"a": 0.1, "b": 0.4}, 0.05),
            made("faq", {"a": 0.2, "b": 0.2}, 0.2),
        ]
    )
    scaled = efficiency.scale_widths(rows)
    found = efficiency.compare_widths(scaled)["like", 20]
    by_hand = efficiency.factor(rows[rows["method"] == "ours"]) / efficiency.factor(
        rows[rows["method"] == "faq"]
    )
    assert found["faq"] == 1 and found["ours"] == pytest.approx(by_hand)
    assert found["ours"] < 0.6


def test_the_width_of_plain_draws_is_that_of_their_mean():
    truth = (np.random.default_rng(0).random((1, 200)) < 0.7).astype(np.uint8)
    random = np.random.default_rng(1)
    means = [truth[0, random.choice(200, 50, replace=False)].mean() for _ in range(4000)]
    assert efficiency.compute_uniform_width(truth, 50)[0] == pytest.approx(
        2 * 1.96 * np.std(means), rel=0.05
    )
