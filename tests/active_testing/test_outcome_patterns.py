"""Classes from known models' outcomes, on a pool whose patterns are known."""

import numpy as np
import pytest
from scipy.special import expit

from nevis_stream.active_testing.surrogates.known_networks import (
    OutcomePatterns,
    compute_class_evidence,
)
from nevis_stream.active_testing.testing import EnsemblePredictions
from nevis_stream.queries.oracle import Query, Responses

N, CLASSES, NEW = 900, 4, 3
LACKING = (1, 4)
"""Known models that err on every sample of the new class; the others err on a tenth of all, and on
most of the hard ones."""


@pytest.fixture
def pool():
    """Outcomes float[6, n], labels, and probabilities that hardly know the new class."""
    random = np.random.default_rng(0)
    labels = random.integers(CLASSES, size=N)
    hard = random.random(N) < 0.1
    rate = np.where(hard, 0.6, 0.1) * np.ones((6, 1))
    rate[list(LACKING)] = np.where(labels == NEW, 1.0, rate[list(LACKING)])
    outcomes = (random.random((6, N)) >= rate).astype(float)
    others = (labels + 1 + random.integers(2, size=N)) % (CLASSES - 1)
    seeming = np.where(labels == NEW, others, labels)
    probabilities = np.full((N, CLASSES), 0.01)
    probabilities[np.arange(N), seeming] = 0.96
    probabilities[labels == NEW, NEW] = random.uniform(0.001, 0.5, (labels == NEW).sum())
    return outcomes, labels, probabilities / probabilities.sum(axis=1, keepdims=True)


def updated(outcomes, probabilities, samples, labels):
    surrogate = OutcomePatterns(lambda _: EnsemblePredictions(probabilities[None]), outcomes)
    query = Query(np.asarray(samples, np.int64)[None])
    return surrogate(Responses(query, labels[samples][None].astype(np.int32))).probabilities[0]


def test_the_pattern_finds_the_class_that_known_models_lack(pool):
    outcomes, labels, probabilities = pool
    new = labels == NEW
    after = updated(outcomes, probabilities, np.arange(20), labels)
    assert probabilities[new, NEW].mean() < 0.3
    assert after[new, NEW].mean() > 0.8
    assert after[~new, NEW].mean() < 0.03
    np.testing.assert_allclose(after.sum(axis=1), 1)


def test_outcomes_without_a_pattern_leave_the_classes_as_they_are(pool):
    _, labels, probabilities = pool
    random = np.random.default_rng(1)
    noise = (random.random((6, N)) < 0.8).astype(float)
    after = updated(noise, probabilities, np.arange(20), labels)
    assert np.abs(after - probabilities).mean() < 0.06
    assert (after.argmax(axis=1) == probabilities.argmax(axis=1)).mean() > 0.9


def test_hard_samples_keep_their_class(pool):
    """If all known models err, that says that a sample is hard, not which class it has."""
    outcomes, labels, probabilities = pool
    all_wrong = np.flatnonzero(labels != NEW)[:30]
    outcomes[:, all_wrong] = 0
    probabilities[all_wrong] = np.eye(CLASSES)[labels[all_wrong]] * 0.9 + 0.1 / CLASSES
    after = updated(outcomes, probabilities, np.arange(20), labels)
    right = after[all_wrong, labels[all_wrong]]
    assert np.median(right) > 0.6


def test_labels_teach_a_class_of_which_the_base_knows_nothing(pool):
    outcomes, labels, _ = pool
    probabilities = np.full((N, CLASSES), 1e-6)
    probabilities[:, :NEW] = (1 - 1e-6) / NEW
    wrong = 1 - outcomes.T
    new = np.flatnonzero(labels == NEW)
    before = compute_class_evidence(probabilities, wrong, new[:0], labels[new[:0]])
    after = compute_class_evidence(probabilities, wrong, new[:20], labels[new[:20]])
    gained = (after - before)[:, NEW] - (after - before)[:, :NEW].mean(axis=1)
    assert gained[new[20:]].mean() > 2 + gained[labels != NEW].mean()


@pytest.mark.parametrize("models", [6, 30, 100])
def test_many_models_that_err_on_the_same_samples_do_not_outvote_the_base(models):
    """The difficulty of a sample has many grades here, and nothing to do with its class."""
    random = np.random.default_rng(3)
    labels = random.integers(CLASSES, size=N)
    difficulty, skill = random.normal(size=N), random.normal(1.5, 0.5, size=(models, 1))
    outcomes = (random.random((models, N)) < expit(2 * (skill - difficulty))).astype(float)
    probabilities = np.full((N, CLASSES), 0.01)
    probabilities[np.arange(N), labels] = 0.97
    after = updated(outcomes, probabilities, np.arange(50), labels)
    assert (after.argmax(axis=1) == labels).mean() > 0.95
