"""A label that is unknown is never a class: it is left out, counted, and widens the interval."""

import warnings

import numpy as np
import pytest

from nevis_stream import active_testing as at
from nevis_stream.active_testing.acquisition_functions import ProportionalSampling
from nevis_stream.active_testing.estimators import ESTIMATORS
from nevis_stream.active_testing.pool import Pool
from nevis_stream.active_testing.testing import fix_surrogate, run_active_test
from nevis_stream.errors import RunWarning
from nevis_stream.queries.oracle import Cost, Responses

N, CLASSES = 400, 4
RANDOM = np.random.default_rng(0)
PROBABILITIES = RANDOM.dirichlet(np.full(CLASSES, 0.4), size=N)
LABELS = np.array([RANDOM.choice(CLASSES, p=each) for each in PROBABILITIES])
WRONG = PROBABILITIES.argmax(axis=1) != LABELS


def failing(way, rows_without):
    def label(rows):
        fails = np.isin(rows, rows_without)
        if way == "raise" and fails.any():
            raise TimeoutError("the server is down")
        instead = {"255": 255, "NaN": np.nan, "None": None, "refusal": "I cannot help"}
        each = zip(rows, fails, strict=True)
        return [instead.get(way) if fail else int(LABELS[row]) for row, fail in each]

    return label


@pytest.mark.parametrize("way", ["255", "NaN", "None", "refusal", "raise"])
def test_an_unknown_label_is_no_class(way):
    asked = []

    def label(rows):
        asked.extend(rows)
        return LABELS[rows]

    clean = at.estimate(PROBABILITIES, label, 60, batch=5)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = at.estimate(PROBABILITIES, failing(way, asked[5:6]), 60, batch=5)
    assert any("1 sample of 60 gave no answer, for example" in str(each.message) for each in said)
    assert all(each.category is RunWarning for each in said)
    assert (found.observed, found.failed, found.cost.labels) == (59, 1, 59)
    assert "59 asked, 1 more gave no answer" in str(found)
    assert found.value == pytest.approx(WRONG.mean(), abs=0.1)
    assert found.low < WRONG.mean() < found.high
    assert found.high - found.low > clean.high - clean.low


def evidence(missing, budget, uniform, seed, loss="zero_one"):
    def oracle(cells):
        (samples,) = cells.samples
        values = np.where(missing[samples], np.nan, LABELS[samples])
        return Responses(cells, values[None], Cost())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RunWarning)
        *_, last = run_active_test(
            Pool.of(PROBABILITIES, loss),
            fix_surrogate(PROBABILITIES[None]),
            oracle,
            budget,
            np.random.default_rng(seed),
            choose=ProportionalSampling(uniform=uniform),
            batch=20,
        )
    return last


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name != "ase"])
def test_intervals_contain_the_whole_pools_error_where_the_wrong_ones_have_no_label(name):
    """The worst that can be left out: 16 of the samples on which the model is wrong."""
    missing = np.zeros(N, bool)
    missing[np.flatnonzero(WRONG)[:16]] = True
    uniform = 1.0 if name == "monte_carlo" else 0.5
    covered, values = 0, []
    for seed in range(30):
        found = ESTIMATORS[name](evidence(missing, 80, uniform, seed))
        covered += bool(np.isnan(found.low)) or found.low <= WRONG.mean() <= found.high
        values.append(found.value)
    assert covered >= 26
    assert np.mean(values) == pytest.approx(WRONG[~missing].mean(), abs=0.03)


@pytest.mark.parametrize("loss", ["zero_one", "cross_entropy"])
def test_all_labels_but_some_give_the_mean_of_those(loss):
    missing = np.arange(N) % 20 == 0
    losses = Pool.of(PROBABILITIES, loss).losses
    truth = losses[np.arange(N), LABELS]
    for name in ("lure", "tuned_difference"):
        found = ESTIMATORS[name](evidence(missing, N, 0.5, 0, loss))
        assert found.value == pytest.approx(truth[~missing].mean())
        assert found.low == pytest.approx(np.where(missing, losses.min(axis=1), truth).mean())
        assert found.high == pytest.approx(np.where(missing, losses.max(axis=1), truth).mean())
        assert (found.observed, found.failed) == (N - 20, 20)


def test_many_failures_leave_no_interval():
    found = ESTIMATORS["lure"](evidence(np.arange(N) % 3 == 0, 120, 0.5, 0))
    assert np.isnan(found.low) and "have no answer, and nothing says" in found.reason
    assert 0 < found.value < 1 and found.observed + found.failed == 120
