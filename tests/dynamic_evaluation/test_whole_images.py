"""Multi-label data sets: an image that is asked gives all its labels, which are paid once."""

import numpy as np
import pytest

from nevis_stream.additions.models import add_models, fit_to_cache
from nevis_stream.additions.samples import add_samples
from nevis_stream.errors import BadInput
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.queries.oracle import Cost, Responses
from nevis_stream.queries.samples import complete_images, number_images
from tests.dynamic_evaluation.making import one_order

IMAGES, LABELS, PASS = 30, 4, 1000
COLUMNS = [f"set/dev/{image}#{label}" for image in range(IMAGES) for label in range(LABELS)]


class Model:
    """Answers for columns; a forward pass for each image of a question."""

    def __init__(self, row):
        self.row, self.passes = row, []

    def __call__(self, cells):
        (columns,) = cells.samples
        images = np.unique(columns // LABELS)
        self.passes += images.tolist()
        return Responses(cells, self.row[columns][None], Cost(PASS * len(images)))


@pytest.fixture
def cache(tmp_path):
    about = {"dataset_id": "set", "kind": "multi_label", "num_classes": LABELS}
    created = EvaluationCache(tmp_path / "cache", create=True, about=about)
    for row, values in enumerate(outcomes()[:12]):
        facts = {"flops_per_sample": PASS / LABELS}
        created.append(f"m{row}", COLUMNS, values, provenance=facts)
    return created


def outcomes():
    return one_order(14, IMAGES * LABELS, noise=1.0)


def test_columns_of_images():
    assert number_images(["b#0", "b#1", "a#0", "a#1"]).tolist() == [0, 0, 1, 1]
    assert number_images(["b#0", "b#1", "a#0"]) is None
    image = np.repeat(np.arange(5), 3)
    rest = complete_images(np.array([[0, 1, 2, 14], [0, 3, 6, 9]]), image)
    assert rest.shape == (2, 8) and rest[1].tolist() == [1, 2, 4, 5, 7, 8, 10, 11]
    # three columns of image 0 and one of 4: two more images
    assert sorted(rest[0].tolist()) == [3, 4, 5, 9, 10, 11, 12, 13]
    assert complete_images(np.arange(15)[None], image).shape == (1, 0)


@pytest.mark.parametrize("method", ["sort_and_search", "copy_nearest", "stratified_mean"])
def test_an_asked_image_gives_all_its_labels(cache, method):
    model = Model(outcomes()[12])
    account = add_models(cache, {"new": model}, 6, method)[0]
    assert len(model.passes) == len(set(model.passes)) <= 6
    values = cache.matrix(["new"])[0].reshape(IMAGES, LABELS)
    mask = (values != 255).all(axis=1)
    assert ((values != 255).any(axis=1) == mask).all()  # all labels of an image, or none
    assert account.asked == LABELS * mask.sum() == LABELS * len(model.passes)
    assert account.flops_spent - account.flops_method == PASS * len(model.passes)
    assert account.low <= account.accuracy <= account.high
    if method != "stratified_mean":  # predicts from all values, of exactly as many images
        assert mask.sum() == 6
    again = add_models(cache, {"new": model}, 6, method)[0]
    assert len(model.passes) == mask.sum() and again.asked == account.asked


def test_all_labels_tell_sort_and_search_more_than_one_each(cache, tmp_path):
    """The same budget of images: the threshold is chosen from four times as many values."""
    single = EvaluationCache(tmp_path / "single", create=True)
    for name in cache.models():
        single.append(name, COLUMNS, cache.matrix([name])[0])
    errors = {}
    for name, each in (("whole", cache), ("single", single)):
        for row in (12, 13):
            truth = outcomes()[row]
            account = add_models(each, {f"new{row}": Model(truth)}, 5, "sort_and_search")[0]
            errors.setdefault(name, []).append(account.high - account.low)
    assert np.mean(errors["whole"]) < np.mean(errors["single"])


def test_a_budget_counts_images(cache):
    with pytest.raises(BadInput, match="between 1 and 30"):
        add_models(cache, {"new": Model(outcomes()[12])}, 31, "sort_and_search")
    fit_to_cache(cache, IMAGES, "sort_and_search")
    model = Model(outcomes()[13])
    account = add_models(cache, {"all": model}, IMAGES, "sort_and_search")[0]
    assert account.asked == IMAGES * LABELS and account.accuracy == outcomes()[13].mean()
    assert len(model.passes) == IMAGES


def test_new_samples_are_asked_with_all_labels(cache):
    new = [f"set/test/{image}#{label}" for image in range(5) for label in range(LABELS)]
    truth = one_order(12, len(new), seed=1)
    models = {f"m{row}": Model(values) for row, values in enumerate(truth)}
    add_samples(cache, new, models, 3)
    observed = (cache.matrix(None, new) != 255).reshape(12, 5, LABELS)
    assert (observed.all(axis=2) == observed.any(axis=2)).all() and observed.any()
    assert sum(len(model.passes) for model in models.values()) == observed.all(axis=2).sum()
