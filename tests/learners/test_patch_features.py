"""Features of images: their scale, what they tell apart, and the axes of few vectors."""

import numpy as np
import pytest

from nevis_stream.learners.closed_form.patch_features import PatchFeatures, _principal


@pytest.mark.parametrize("channels", [1, 3])
def test_features_tell_directions_of_bars_apart(channels):
    random = np.random.default_rng(0)
    labels = np.arange(40) % 2
    bars = 120 * (np.arange(28) % 4 < 2)
    images = np.where(labels[:, None, None] == 0, bars[:, None], bars) + random.integers(
        90, size=(40, 28, 28)
    )
    images = np.repeat(images[..., None], channels, axis=-1).astype(np.uint8)
    extractor = PatchFeatures.fit(images, components=16)
    features = extractor(images)
    assert features.shape == (40, 16) and features.dtype == np.float32
    assert np.mean(features**2) == pytest.approx(1, rel=0.2)
    assert np.allclose(extractor(images[:3]), features[:3], atol=1e-3)
    similar = np.corrcoef(features)
    np.fill_diagonal(similar, -1)
    assert (labels[similar.argmax(axis=1)] == labels).all()


def test_axes_of_few_vectors_are_those_of_many():
    random = np.random.default_rng(1)
    few = random.normal(size=(6, 20)) * np.linspace(1, 3, 20)
    many = np.concatenate([few] * 4)  # the same variances, and more vectors than values
    values, axes = _principal(few)
    expected, others = _principal(many)
    assert len(values) == 6 and len(expected) == 20
    assert values == pytest.approx(expected[-6:])
    assert np.abs((axes * others[:, -6:]).sum(0)) == pytest.approx(np.ones(6))
