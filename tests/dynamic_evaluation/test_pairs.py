"""Any policy goes with any predictor."""

import dataclasses

import jax
import numpy as np
import pytest

from nevis_stream.dynamic_evaluation import methods
from nevis_stream.queries.matrix import ArrayMatrix
from nevis_stream.queries.oracle import MatrixOracle
from nevis_stream.queries.samples import SampleFacts
from tests.dynamic_evaluation.making import one_order

MATRIX = one_order(34, 300, noise=0.7)
FACTS = SampleFacts(
    300,
    features=np.random.default_rng(0).normal(size=(300, 4)).astype(np.float32),
    dataset=np.repeat(["large", "small", "tiny"], [200, 95, 5]),
)
KNOWN, NEW = ArrayMatrix(MATRIX[:28], facts=FACTS), MATRIX[28:]
QUICK = ("mean", "sort_and_search", "nearest", "stratified", "published", "anchor_weights")
FIRST = ("mean", "sort_and_search")  # the others of QUICK are left to `make test-all`
TRAINED = ("reinforcement", "reinforcement_terminal", "neural_process")
POLICIES, PREDICTORS = map(methods.list_usable, (methods.POLICIES, methods.PREDICTORS))
OTHER_DRAWS = {
    "staged_strata": "model_assisted",
    "informed_strata": "factor_model",
    "growing_strata": "factor_model",
}
OWN_DRAWS = [name for name in PREDICTORS if "guarded_" in name or "_like_known" in name]
SEEING = [name for name, policy in POLICIES.items() if policy.needs]
DRAWING = {policy for policy in SEEING if policy in OTHER_DRAWS or policy.startswith("guard_")}
PAIRS = sorted(
    {f"{policy}+{predictor}" for policy in set(POLICIES) - set(SEEING) for predictor in QUICK}
    | {f"{policy}+irt_2pl" for policy in set(SEEING) - DRAWING}
    | {f"strata+{name}" for name in set(PREDICTORS) - {*OTHER_DRAWS.values(), *OWN_DRAWS}}
    | {f"{policy}+{predictor}" for policy, predictor in OTHER_DRAWS.items()}
)


def marked(name):
    policy, _, predictor = name.partition("+")
    slow = policy != "strata" and predictor in set(QUICK) - set(FIRST)
    slow |= policy in TRAINED or predictor in TRAINED  # in other tests
    return pytest.param(name, marks=[pytest.mark.slow] if slow else [])


@pytest.mark.parametrize("name", map(marked, PAIRS))
def test_a_pair_estimates_with_an_interval(name):
    method, key = methods.get(name), jax.random.key(0)
    oracle = MatrixOracle(NEW)
    estimates = method.fit(KNOWN, None, key).evaluate(oracle, len(NEW), 20, key)
    assert (oracle.counts == (300 if name.startswith("everything") else 20)).all()
    assert np.isfinite(estimates.values).all() and np.isfinite(estimates.accuracy).all()
    assert np.isfinite(estimates.low).all() and (estimates.low <= estimates.high).all()
    if method.cross_validated and name.endswith(("+mean", "+stratified")):
        # not the predictor's own interval, which holds for other policies: one width for all models
        # but for those that end at what the answers leave possible
        right, wrong = ((estimates.answers.values == end).sum(axis=1) / 300 for end in (1, 0))
        inside = (estimates.low > right) & (estimates.high < 1 - wrong)
        half = estimates.high - estimates.accuracy
        assert np.allclose(half[inside], half[inside][:1])
        assert np.allclose((estimates.accuracy - estimates.low)[inside], half[inside])
    # The published rule counts positions of its own grid, so it is worse on other cells.
    most = 0.3 if name.endswith("+published") else 0.2
    assert np.abs(estimates.accuracy - NEW.mean(axis=1)).mean() < most
    if not name.endswith("+published"):  # which overwrites answers
        assert (estimates.outcomes[oracle.observed] == NEW[oracle.observed]).all()


@pytest.mark.parametrize(
    ("name", "cross_validated"),
    [
        ("random+mean", False),
        ("error+mean", True),
        ("uniform+mean", True),
        ("uniform+stratified", True),
        ("datasets+mean", False),
        ("strata+stratified", False),
        ("quadrature+mean", True),
        ("sparse_anchors+stratified", True),
        ("clusters_values+mean", True),
        ("clusters_values+combination", False),
    ],
)
def test_an_interval_is_cross_validated_where_the_cells_are_not_drawn(name, cross_validated):
    assert methods.get(name).cross_validated == cross_validated


@pytest.mark.parametrize("predictor", ["sort_and_search", "nearest"])
@pytest.mark.parametrize(
    ("policy", "weighted", "refitted"),
    [("strata", False, False), ("clusters_values", False, True), ("strata", True, True)],
)
def test_a_left_out_model_takes_no_part_in_the_choice_of_its_cells(
    predictor, policy, weighted, refitted
):
    weights = {"large": 1, "small": 1, "tiny": 1} if weighted else None
    facts = dataclasses.replace(FACTS, dataset_weights=weights)
    method, key = methods.make_pair(f"{policy}+{predictor}"), jax.random.key(0)
    evaluator = method.fit(ArrayMatrix(KNOWN.values, None, facts), None, key)
    errors, tree = evaluator.fit_budget(20)["errors"], evaluator.tree
    assert ("folds" in tree) == refitted
    new = method.fit(ArrayMatrix(KNOWN.values[:20], None, facts), None, key)
    truth = KNOWN.values[20:]
    estimates = new.evaluate(MatrixOracle(truth), len(truth), 20, key)
    away = estimates.accuracy - facts.mean(truth)
    # the errors that the interval is learned from are as large as those of new models
    assert 0.5 < np.sqrt((errors**2).mean() / (away**2).mean()) < 2
