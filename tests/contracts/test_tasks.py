"""One suite over every task of the embedded stream: what a runner and a learner rely on."""

import numpy as np
import pytest

from nevis_stream.streams.named_streams import load_stream
from nevis_stream.streams.task import SPLITS

STREAM = load_stream("pico")


@pytest.mark.parametrize("task", STREAM.tasks, ids=lambda task: task.task_id)
def test_splits_labels_ids_and_images(task):
    splits, dataset = STREAM.splits(task), STREAM.dataset(task)
    assert set(splits) == set(SPLITS)
    assert (dataset.kind, dataset.num_classes, dataset.dataset_id) == (
        task.kind,
        task.num_classes,
        task.dataset_id,
    )
    ids = [name for split in SPLITS for name in splits[split].ids]
    assert len(set(ids)) == len(ids) == sum(len(part) for part in dataset.parts.values())
    for split in SPLITS:
        samples = splits[split]
        assert len(samples) > 0
        if task.kind == "single_label":
            assert samples.labels.dtype == np.int32 and samples.labels.ndim == 1
            assert samples.labels.min() >= 0 and samples.labels.max() < task.num_classes
        else:
            assert samples.labels.dtype == np.uint8 and samples.labels.shape == (
                len(samples),
                task.num_classes,
            )
            assert set(np.unique(samples.labels)) <= {0, 1}
        for name in samples.ids:
            dataset_id, part, index = name.split("/")
            assert dataset_id == task.dataset_id and part in dataset.parts and index.isdigit()
        for i in (0, len(samples) - 1):
            image = samples.images[i]
            assert image.dtype == np.uint8 and image.shape == (*samples.images.sizes[i], 3)
    seen = {int(label) for label in np.unique(splits["train"].labels)}
    assert task.kind == "multi_label" or seen == set(range(task.num_classes))
