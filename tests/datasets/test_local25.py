"""The real data sets of the shared folder, imported: counts, classes and nearest neighbours are as
its manifest records them.
"""

import csv

import numpy as np
import pytest

from nevis_stream import catalogue, metrics
from nevis_stream.datasets import prepared
from nevis_stream.datasets.dataset import SINGLE_LABEL
from nevis_stream.streams.named_streams import list_stream_rows, load_stream
from tests import forked

pytest.importorskip("tensorflow_datasets")
DATA = catalogue.find_shared_directory() / "data"
if not (DATA / "manifest.csv").is_file():
    pytest.skip(
        f"no shared data sets at {DATA}: name their folder in NEVIS_STREAM_SHARED",
        allow_module_level=True,
    )

with open(DATA / "manifest.csv", newline="") as manifest:
    MANIFEST = {f"data/{row['file']}": row for row in csv.DictReader(manifest)}
NAMES = sorted({row["dataset_id"] for row in list_stream_rows("local25")[1]})
# The others are prepared by `make test-all`: every file format and both kinds of labels are here.
SMALL = ("brodatz", "covid19_xray", "semeion", "umist", "voc2007")
CHOSEN = [pytest.param(n, marks=[] if n in SMALL else [pytest.mark.slow]) for n in NAMES]
NEIGHBOURS = 15
TOLERANCE = 0.02
JUDGED = 2000  # test images at most: the share that is right then has a standard error of 0.01


def prepare(stream, count):
    """Runs the command that the documentation names."""
    done = forked.alone("launch.data", "prepare", f"--stream={stream}", timeout=600)
    ready = f"{count} of {count} data sets are ready"
    assert done.returncode == 0 and ready in done.stdout, done.stderr


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """An empty data root."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("local25")
        patch.setenv("NEVIS_STREAM_DATA", str(folder))
        yield folder


@pytest.fixture(scope="module")
def imported(root, request):
    """The data sets of the tests that are run, prepared together."""
    items = [item for item in request.session.items if item.path == request.path]
    parameters = [item.callspec.params for item in items if hasattr(item, "callspec")]
    names = {each["dataset_id"] for each in parameters}
    rows = [row for row in list_stream_rows("local25")[1] if row["dataset_id"] in names]
    columns = ["order", "year", "task_id", "dataset_id", "meta_split", "source"]
    with open(root / "chosen.csv", "w", newline="") as file:
        table = csv.DictWriter(file, columns, extrasaction="ignore")
        table.writeheader()
        table.writerows(rows)
    prepare(root / "chosen.csv", len(names))


def splits(dataset_id):
    """Training part (train, dev and dev_test together) and test part at 32×32: float32[n, pixels],
    labels.
    """
    parts = prepared.load(dataset_id, "local").parts
    views = {name: np.asarray(samples.images.resized(32)) for name, samples in parts.items()}
    grey = all((view[:64, ..., 0] == view[:64, ..., 1]).all() for view in views.values())
    flat = {
        name: (v[..., 0] if grey else v).reshape(len(v), -1).astype(np.float32) / 255
        for name, v in views.items()
    }
    training = ("train", "dev", "dev_test")
    return (
        np.concatenate([flat[name] for name in training]),
        np.concatenate([parts[name].labels for name in training]),
        flat["test"],
        parts["test"].labels,
    )


def nearest(training, test, count):
    """int[m, count]: the nearest training rows of each test row."""
    norms = (training**2).sum(1)
    rows = []
    for start in range(0, len(test), 500):
        distances = -2 * test[start : start + 500] @ training.T
        distances += norms
        rows.append(
            distances.argmin(1)[:, None]
            if count == 1
            else np.argpartition(distances, count - 1, axis=1)[:, :count]
        )
    return np.concatenate(rows)


def test_local25_is_30_tasks_in_the_order_of_the_full_stream():
    full = {row["task_id"]: number for number, row in enumerate(list_stream_rows("full")[1])}
    rows = list_stream_rows("local25")[1]
    places = [full[row["task_id"]] for row in rows]
    assert (
        len(rows) == 30
        and places == sorted(places)
        and sum(row["meta_split"] == "test" for row in rows) == 5
    )
    assert {row["dataset_id"] for row in list_stream_rows("local26")[1]} == {
        name for name in catalogue.read_shared_files() if name in catalogue.read_nevis22_datasets()
    }


@pytest.mark.parametrize("dataset_id", CHOSEN)
def test_counts_and_classes_are_the_manifests(imported, dataset_id):
    about, row = (
        prepared.read_about(dataset_id, "local"),
        MANIFEST[catalogue.read_shared_files()[dataset_id]["file"]],
    )
    assert about["found"] == {"train": int(row["n_train"]), "test": int(row["n_test"])}
    assert about["num_classes"] == int(row["num_classes"]) and about["classes_with_samples"] == int(
        row["classes_present"]
    )
    assert about["kind"] == {"C": "single_label", "M": "multi_label"}[row["kind"]]
    assert about["sources"][0]["sha256"] == row["sha256"]
    removed = about["exact_duplicates_removed"]
    assert (
        sum(about["splits"].values())
        == sum(about["found"].values()) - removed["within_parts"] - removed["across_parts"]
    )
    assert prepared.verify(dataset_id, "local") == []


@pytest.mark.slow
@pytest.mark.parametrize("dataset_id", CHOSEN)
def test_nearest_neighbours_are_as_good_as_recorded(imported, dataset_id):
    recorded = float(MANIFEST[catalogue.read_shared_files()[dataset_id]["file"]]["knn_acc"])
    training, labels, test, truth = splits(dataset_id)
    test, truth = test[:JUDGED], truth[:JUDGED]  # stored in a random order
    if prepared.read_about(dataset_id, "local")["kind"] == SINGLE_LABEL:
        value = float((labels[nearest(training, test, 1)[:, 0]] == truth).mean())
    else:
        frequencies = labels[nearest(training, test, NEIGHBOURS)].mean(axis=1)
        value = metrics.find_metric("multi_label").aggregate(truth, frequencies)
    assert abs(value - recorded) <= TOLERANCE, f"{value:.4f}, recorded {recorded}"


@pytest.mark.slow
# caltech101 has 3.5 images per class for training
@pytest.mark.filterwarnings("ignore::nevis_stream.errors.DataWarning")
def test_the_stream_is_marked_and_whole(root):
    prepare("local25", 25)
    stream = load_stream("local25")
    assert stream.digest.endswith("-local") and len(stream.tasks) == 30
    assert {len(stream.splits(task)) for task in stream.tasks} == {4}
    covid = next(task for task in stream.tasks if task.dataset_id == "covid19_xray")
    assert covid.num_classes == 2  # of the published four: an import brings its own
