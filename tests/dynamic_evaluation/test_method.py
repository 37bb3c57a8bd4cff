import jax
import numpy as np
import pytest

from nevis_stream.dynamic_evaluation import methods
from nevis_stream.errors import BadInput
from nevis_stream.queries.oracle import MatrixOracle, Query
from nevis_stream.queries.samples import check_outcomes, make_numpy_generator

TRUTH = np.array([[0, 1, 1, 0], [1, 1, 255, 0]], np.uint8)


def test_asking_a_matrix_reads_and_counts():
    oracle = MatrixOracle(TRUTH)
    assert oracle(Query(np.array([[1, 0], [3, 0]]))).values.tolist() == [[1, 0], [0, 1]]
    assert oracle(Query(np.array([[3], [1]]))).values.tolist() == [[0], [1]]
    assert oracle.counts.tolist() == [3, 3]
    assert oracle.observed.tolist() == [[True, True, False, True], [True, True, False, True]]


@pytest.mark.parametrize(
    "samples, message",
    [
        ([[0, 0], [0, 1]], "asked twice"),
        ([[0], [4]], "there are 4"),
        ([[-1], [0]], "there are 4"),
        ([[0], [2]], "model 1 on sample 2"),
        ([[0]], "one row per model"),
        ([[0.0], [1.0]], "float64"),
    ],
)
def test_asking_a_matrix_refuses(samples, message):
    oracle = MatrixOracle(TRUTH)
    with pytest.raises(BadInput, match=message):
        oracle(Query(np.array(samples)))
    assert not oracle.observed.any()


def test_asking_a_matrix_refuses_what_was_asked_in_an_earlier_call():
    oracle = MatrixOracle(TRUTH)
    oracle(Query(np.array([[0], [1]])))
    with pytest.raises(BadInput, match="asked twice"):
        oracle(Query(np.array([[1], [1]])))


@pytest.mark.parametrize(
    "known",
    [
        np.zeros((2, 3)),
        np.zeros(3, np.uint8),
        np.zeros((0, 3), np.uint8),
        np.full((1, 2), 2, np.uint8),
    ],
)
def test_matrices_that_are_not_of_outcomes_are_refused(known):
    with pytest.raises(BadInput, match="outcomes"):
        check_outcomes(known)


def test_keys_give_numbers():
    first, other = (
        make_numpy_generator(jax.random.key(seed)).integers(1 << 30, size=4).tolist()
        for seed in (0, 1)
    )
    assert (
        first == make_numpy_generator(jax.random.key(0)).integers(1 << 30, size=4).tolist() != other
    )


def test_an_unknown_method_names_the_valid_ones():
    with pytest.raises(BadInput, match="'guess'.*random_mean"):
        methods.get("guess")
