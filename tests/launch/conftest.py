"""What the tests of the entry points share."""

import csv

import numpy as np
import pytest


@pytest.fixture(scope="session")
def small_stream(tmp_path_factory):
    """A user's own stream: two small npz files and a csv of rows."""
    directory = tmp_path_factory.mktemp("own")
    random = np.random.RandomState(0)
    for name in ("one", "two"):
        labels = random.randint(3, size=80)
        images = (random.randint(0, 90, size=(80, 8, 8)) + 50 * labels[:, None, None]).astype(
            np.uint8
        )
        np.savez(
            directory / f"{name}.npz",
            images_train=images[:60],
            labels_train=labels[:60],
            images_test=images[60:],
            labels_test=labels[60:],
        )
    rows = [["order", "year", "task_id", "dataset_id", "meta_split", "path"]]
    rows += [
        [1, 2001, "one", "one", "train", "one.npz"],
        [2, 2020, "two", "two", "test", "two.npz"],
    ]
    with open(directory / "own.csv", "w", newline="") as file:
        csv.writer(file).writerows(rows)
    return directory / "own.csv"
