import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from nevis_stream.errors import BadInput
from nevis_stream.experiments.evaluation_studies import agreement
from tests.dynamic_evaluation.making import one_order, outcomes


def test_error_of_cells():
    truth = np.array([[1, 1, 0, 0], [1, 0, 255, 255], [255] * 4], np.uint8)
    predicted = np.array([[0, 0, 1, 1], [1, 1, 0, 1], [1] * 4], np.uint8)
    assert agreement.compute_mean_absolute_error(predicted, truth) == pytest.approx(
        [1, 0.5, np.nan], nan_ok=True
    )


@settings(deadline=None)
@given(outcomes(models=(1, 1)))
def test_the_right_number_of_ones_may_hide_the_worst_error_of_cells(truth):
    """Sort & Search, theorem 2.1: some prediction with the right number of ones is wrong on
    2 min(p, 1 - p) of the samples.
    """
    fraction = truth.mean()
    predicted = np.zeros_like(truth)
    predicted[0, np.argsort(truth[0], kind="stable")[: truth.sum()]] = 1
    assert predicted.sum() == truth.sum()
    assert agreement.compute_mean_absolute_error(predicted, truth)[0] == pytest.approx(
        2 * min(fraction, 1 - fraction)
    )


@settings(deadline=None)
@given(outcomes(), st.data())
def test_the_parts_bound_the_total(truth, data):
    n = truth.shape[1]
    order = np.array(data.draw(st.permutations(range(n))))
    cuts = np.array([data.draw(st.integers(0, n)) for _ in truth])
    predicted = np.zeros_like(truth)
    predicted[:, order] = np.arange(n) < cuts[:, None]
    parts = agreement.decompose(truth, order, predicted)
    assert (parts.total <= parts.aleatoric + parts.epistemic + 1e-12).all()
    assert (parts.aleatoric <= parts.total + 1e-12).all()  # no threshold beats the best
    assert np.allclose(parts.total, agreement.compute_mean_absolute_error(predicted, truth))


def test_rankings_agree_or_are_undefined():
    assert agreement.correlate_ranks([0.1, 0.2, 0.9], [0.3, 0.4, 0.5]) == (1, 1)
    assert agreement.correlate_ranks([0.9, 0.2, 0.1], [0.3, 0.4, 0.5]) == (-1, -1)
    assert np.isnan(agreement.correlate_ranks([0.5, 0.5], [0.3, 0.4])).all()
    assert np.isnan(agreement.correlate_ranks([0.5], [0.3])).all()


def test_correlations_of_models_equal_scipy():
    matrix = one_order(6, 200, noise=1.0)
    result = agreement.correlate_models(matrix)
    assert np.allclose(result, spearmanr(matrix, axis=1).statistic)
    assert (result > 0).all()
    holes = matrix.copy()
    holes[0, :50] = 255
    assert agreement.correlate_models(holes)[0, 1] == pytest.approx(
        spearmanr(matrix[0, 50:], matrix[1, 50:]).statistic
    )
    constant = np.vstack([matrix, np.ones((1, 200), np.uint8)])
    assert np.isnan(agreement.correlate_models(constant)[-1]).all()


def test_the_decay_is_found_again():
    budgets = np.array([8, 16, 32, 64, 128, 256, 512])
    true = agreement.Decay(0.12, 0.04, 0.15)
    result = agreement.fit_decay(budgets, true(budgets))
    assert (result.a, result.rate, result.plateau) == pytest.approx((0.12, 0.04, 0.15), rel=1e-3)
    flat = agreement.fit_decay(budgets, np.full(7, 0.2))
    assert flat(budgets) == pytest.approx(np.full(7, 0.2))
    with pytest.raises(BadInput, match="three different"):
        agreement.fit_decay([8, 8, 16], [1, 1, 1])
    with pytest.raises(BadInput, match="finite"):
        agreement.fit_decay([8, 16, 32], [1, np.nan, 1])
