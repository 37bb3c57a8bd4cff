"""A model's error from its probabilities and a labeller."""

import numpy as np
import pytest

from nevis_stream import active_testing as at
from nevis_stream.errors import BadInput

CLASSES = 4


@pytest.fixture(scope="module")
def pool():
    random = np.random.default_rng(0)
    probabilities = random.dirichlet(np.full(CLASSES, 0.4), size=400)
    return probabilities, np.array([random.choice(CLASSES, p=each) for each in probabilities])


def test_the_interval_contains_the_error_about_as_often_as_it_says(pool):
    probabilities, labels = pool
    risk = (probabilities.argmax(axis=1) != labels).mean()
    found = [at.estimate(probabilities, labels.__getitem__, 60, seed=seed) for seed in range(20)]
    assert sum(each.low <= risk <= each.high for each in found) >= 16
    assert np.mean([each.value for each in found]) == pytest.approx(risk, abs=0.05)
    assert all(each.observed == each.cost.labels == 60 for each in found)


def test_one_estimate_after_each_label_and_the_last_is_the_estimate(pool):
    probabilities, labels = pool
    asked = []

    def label(rows):
        asked.extend(rows)
        return labels[rows]

    steps = list(at.estimates(probabilities, label, 30))
    assert [each.observed for each in steps] == list(range(1, 31))
    assert len(set(asked)) == 30
    assert steps[-1] == at.estimate(probabilities, label, 30)
    for each in at.estimates(probabilities, label, 30):  # may be stopped
        if each.observed == 3:
            break
    assert len(asked) == 63


def test_all_labels_give_the_error_itself(pool):
    probabilities, labels = pool
    whole = at.estimate(probabilities, lambda rows: labels[rows], 400, batch=50)
    assert whole.value == (probabilities.argmax(axis=1) != labels).mean()
    assert whole.low == whole.high == whole.value


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": 401}, "between 1 and 400"),
        ({"label": lambda rows: [9]}, "is 9, not a class from 0 to 3"),
        ({"label": lambda rows: 1}, "one for each"),
        ({"label": lambda rows: [0.5]}, "is 0.5, not a class from 0 to 3"),
        ({"label": lambda rows: ["cat"]}, "none of the 5 samples that were asked gave a class"),
        ({"loss": "zero-one"}, "'zero_one'"),
        ({"estimator": "lur"}, "'lure'"),
        ({"features": np.zeros((3, 2))}, "a row for each sample"),
    ],
)
def test_mistakes_are_named(pool, options, message):
    arguments = {"probabilities": pool[0], "label": lambda rows: pool[1][rows], "budget": 5}
    with pytest.raises(BadInput, match=message):
        at.estimate(**(arguments | options))
