"""Bare matrices, as Sort & Search publishes them, are imported block by block."""

import numpy as np
import pytest

from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache import EvaluationCache, matrix_files
from nevis_stream.evaluation_cache.files import read_values
from nevis_stream.evaluation_cache.matrix_files import import_matrix
from nevis_stream.evaluation_cache.values import Ranges
from tests import forked

VALUES = (np.random.default_rng(0).random((9, 70)) < 0.6).astype(np.uint8)


def save(path, values):
    np.save(path, values)
    return path


@pytest.mark.parametrize("kind", [bool, np.uint8, np.int64, np.float32])
@pytest.mark.parametrize("order", ["C", "F"])
def test_a_matrix_is_imported_by_blocks(kind, order, tmp_path, monkeypatch):
    monkeypatch.setattr(matrix_files, "_BLOCK_BYTES", 200)
    values = VALUES.astype(kind)
    expected = VALUES.copy()
    if kind is not bool:
        values[2, 3] = expected[2, 3] = 255
    path = save(tmp_path / "A.npy", np.asarray(values, order=order))
    record = import_matrix(tmp_path / "c", path)
    cache = EvaluationCache(tmp_path / "c")
    assert np.array_equal(cache.matrix(), expected) and cache.verify() == []
    assert cache.samples()[:2] == ["sample/0", "sample/1"] and list(cache.models())[8] == "model/8"
    assert "9 models × 70 samples" in record.understood[0] and cache.imports() == [record]
    import_matrix(cache, path)  # again: nothing changes
    assert np.array_equal(cache.matrix(), expected)
    assert np.array_equal(read_values(path).values, expected)


def test_scores_have_a_range(tmp_path):
    values = np.array([[1.0, 5.0, np.nan], [3.0, 2.0, 4.0]])
    path = save(tmp_path / "A.npy", values)
    with pytest.raises(BadInput, match="model 0, sample 1: 5 is not between 0 and 1.*--range"):
        import_matrix(tmp_path / "c", path)
    assert not (tmp_path / "c").exists()
    record = import_matrix(tmp_path / "c", path, Ranges((1.0, 5.0)))
    assert "scores from 1 to 5, mean 3.0000" in record.understood[2]
    found = EvaluationCache(tmp_path / "c").matrix()
    assert np.array_equal(found, np.float32((values - 1) / 4), equal_nan=True)


@pytest.mark.parametrize(
    "values, message",
    [
        (np.arange(5), "a matrix of numbers, .models, samples., is expected"),
        (np.array([["a"]]), "a matrix of numbers"),
        (np.full((2, 2), 255, np.uint8), "has no known value"),
        (np.full((2, 2), 7, np.uint8), "7 is not between 0 and 1"),
    ],
)
def test_what_is_no_matrix_is_refused(values, message, tmp_path):
    with pytest.raises(BadInput, match=message):
        import_matrix(tmp_path / "c", save(tmp_path / "A.npy", values))
    path = save(tmp_path / "B.npy", VALUES)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(BadInput, match="is cut short"):
        import_matrix(tmp_path / "c", path)


def test_the_published_form_of_sort_and_search(tmp_path):
    """A matrix and the models to rank by; the others are added as new ones."""
    path = save(tmp_path / "A.npy", VALUES)
    rows = save(tmp_path / "rank_idx_lifelong-cifar10_model_eval_6_sum_42_.npy", [5, 0, 7, 2, 8, 3])
    words = ["nevis_stream.launch.evaluate", "import", path]
    done = forked.run(*words, f"--cache={tmp_path / 'all'}")
    assert f"--rows={rows}" in done.stdout and done.returncode == 0, done.stderr
    done = forked.run(*words, f"--rows={rows}", f"--cache={tmp_path / 'known'}")
    assert "6 models × 70 samples, of 9 models in the file" in done.stdout, done.stderr
    cache = EvaluationCache(tmp_path / "known")
    assert list(cache.models()) == [f"model/{row}" for row in (0, 2, 3, 5, 7, 8)]
    assert np.array_equal(cache.matrix(), VALUES[[0, 2, 3, 5, 7, 8]])
    for wrong, message in (([9], "whole numbers from 0 to 8"), ([1, 1], "a row is named twice")):
        np.save(rows, wrong)
        with pytest.raises(BadInput, match=message):
            import_matrix(tmp_path / "other", path, rows=rows)
