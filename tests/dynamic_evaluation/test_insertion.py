import jax
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nevis_stream.dynamic_evaluation import methods, sorting
from nevis_stream.dynamic_evaluation.sorting import sort
from nevis_stream.queries.oracle import MatrixOracle
from nevis_stream.queries.samples import place_centres
from tests.dynamic_evaluation.making import one_order, outcomes

KEY = jax.random.key(0)


def test_new_samples_are_evaluated_on_few_models():
    matrix = one_order(200, 400, noise=0.5)
    known, new = matrix[:, :300], np.ascontiguousarray(matrix[:, 300:].T)
    oracle = MatrixOracle(new)
    evaluator = methods.get("sort_and_search").fit(known.T, None, KEY)
    estimate = evaluator.evaluate(oracle, len(new), 32, KEY)
    assert estimate.outcomes.shape == (100, 200) and (oracle.counts == 32).all()
    assert (estimate.outcomes != new).mean() < 0.16
    evaluator = methods.get("random_mean").fit(known.T, None, KEY)
    mean = evaluator.evaluate(MatrixOracle(new), len(new), 32, KEY)
    assert (estimate.outcomes != new).mean() < (mean.outcomes != new).mean()


@settings(max_examples=60, deadline=None)
@given(outcomes(models=(1, 6), samples=(2, 25)), st.integers(0, 1 << 31), st.booleans())
def test_predicted_rows_never_change_the_order(known, seed, recursive):
    """Appendix F: long sequences of insertions, each taken for truth, accumulate nothing."""
    random = np.random.default_rng(seed)
    rank = sort(known, by="recursive" if recursive else "sum")
    order = rank.order.copy()
    for _ in range(40):
        row = np.zeros((1, rank.n), np.uint8)
        row[0, order[: random.integers(rank.n + 1)]] = 1
        rank = rank.add(row)
        assert (rank.order == order).all()


def predicted(matrix, outcomes):
    """A row for the matrix, predicted from a third of the outcomes; all of it predicted, none
    observed.
    """
    rank = sort(matrix)
    places = place_centres(rank.n, max(1, rank.n // 3))[None]
    cut = sorting.find_thresholds(rank, places, outcomes[rank.order[places]])
    return (rank.place < cut[:, None]).astype(np.uint8)


@settings(max_examples=25, deadline=None)
@given(outcomes(models=(3, 8), samples=(3, 12)), st.integers(0, 1 << 31))
def test_predicted_rows_and_columns_never_change_either_order(known, seed):
    """Models and samples in turn; each is predicted from the other axis' order and appended as if
    it were true.
    """
    random = np.random.default_rng(seed)
    models, samples = known.shape
    easy, strong = sort(known).order.tolist(), sort(known.T).order.tolist()
    for _ in range(10):
        known = np.vstack(
            [known, predicted(known, random.integers(0, 2, known.shape[1], dtype=np.uint8))]
        )
        known = np.hstack(
            [known, predicted(known.T, random.integers(0, 2, known.shape[0], dtype=np.uint8)).T]
        )
        assert [sample for sample in sort(known).order if sample < samples] == easy
        assert [model for model in sort(known.T).order if model < models] == strong
