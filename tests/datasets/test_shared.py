"""The real data sets of the shared folder, if it exists: counts and classes as their
manifest says.
"""

import csv

import pytest

from nevis_stream import catalogue
from nevis_stream.datasets import sources
from nevis_stream.datasets.reading import Choices
from nevis_stream.datasets.splits import divide

DATA = catalogue.find_shared_directory() / "data"
if not (DATA / "manifest.csv").is_file():
    pytest.skip(
        f"no shared data sets at {DATA}: name their folder in NEVIS_STREAM_SHARED",
        allow_module_level=True,
    )

with open(DATA / "manifest.csv", newline="") as manifest:
    ROWS = {f"shared:data/{row['file']}": row for row in csv.DictReader(manifest)}
KNOWN = {
    name: row | {"source": f"shared:{row['file']}"}
    for name, row in catalogue.read_shared_files().items()
}


def test_every_file_of_the_catalogue_is_there_and_said_where_it_is_from():
    for row in KNOWN.values():
        about = ROWS[row["source"]]
        made_from = about["source_repo"], about["source_path"], about["sha256"]
        assert (row["repository"], row["files"], row["sha256"]) == made_from


# 3.5 images per class leave some class out of train
@pytest.mark.filterwarnings("ignore::nevis_stream.errors.DataWarning")
@pytest.mark.parametrize(
    "dataset_id",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name == "tiny_imagenet"))
        for name in sorted(KNOWN)
    ],
)
def test_counts_classes_and_splits(dataset_id):
    about = KNOWN[dataset_id]
    row = ROWS[about["source"]]
    dataset = sources.load(dataset_id, about["source"], Choices.of_row(about))
    assert {name: len(part) for name, part in dataset.parts.items()} == {
        "train": int(row["n_train"]),
        "test": int(row["n_test"]),
    }
    assert dataset.num_classes == int(row["num_classes"])
    assert dataset.kind == {"C": "single_label", "M": "multi_label"}[row["kind"]]
    splits = divide(dataset)
    n = int(row["n_train"])
    for name, share in (("train", 0.7), ("dev", 0.15), ("dev_test", 0.15)):
        assert abs(len(splits[name]) - share * n) < 1
    assert sum(len(splits[name]) for name in ("train", "dev", "dev_test")) == n
    assert list(splits["test"].ids) == list(dataset.parts["test"].ids)
