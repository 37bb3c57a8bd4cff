"""`python -m launch.data` as a user meets it: real processes, real files, mistakes without
tracebacks.
"""

import csv
import functools
import io
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from tests import forked
from tests.datasets.archives.making import idx, write_gz

ROOT = Path(__file__).resolve().parents[2]
NEW = ["--task=mine", "--year=2024"]


def run(place, *words, status=0, start=forked.run):
    """Runs a command with a data root and a shared folder in `place`; returns what it said."""
    environment = os.environ | {
        "NEVIS_STREAM_DATA": str(place / "data"),
        "NEVIS_STREAM_SHARED": str(place / "shared"),
        "TFDS_DATA_DIR": str(place / "tfds"),
    }
    done = start("launch.data", *words, cwd=ROOT, env=environment)
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout if not status or "error:" not in done.stderr else done.stderr


@pytest.fixture
def data(tmp_path):
    """Runs a command with folders of the test's own."""
    return functools.partial(run, tmp_path)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """An .npz with 3 classes, of which two test images are copies of training images."""
    random = np.random.RandomState(0)
    images = random.randint(0, 255, (80, 10, 12, 3), dtype=np.uint8)
    images[60:62] = images[:2]
    labels = np.arange(80) % 3
    path = tmp_path_factory.mktemp("pictures") / "mine.npz"
    np.savez(
        path,
        images_train=images[:60],
        labels_train=labels[:60],
        images_test=images[60:],
        labels_test=labels[60:],
    )
    return path


@pytest.fixture(scope="module")
def imported(pictures, tmp_path_factory):
    """A place where the pictures are a new task, and what the import said."""
    place = tmp_path_factory.mktemp("imported")
    return SimpleNamespace(place=place, said=run(place, "import", pictures, *NEW, "--domain=noise"))


@pytest.fixture
def own_copy(imported, tmp_path):
    """The data root of the test, with the new task."""
    return shutil.copytree(imported.place / "data", tmp_path / "data")


@pytest.fixture
def damaged(own_copy):
    """The same, with facts of the task altered since it was imported."""
    (kept,) = (own_copy / "local/mine").glob("*/prepared.json")
    kept.write_text(kept.read_text().replace("noise", "voice"))
    return own_copy


def test_list_is_a_table_and_a_csv_and_can_be_filtered(data):
    table = data("list", "--stream=short")
    assert "short: 29 tasks, 28 data sets" in table and "to download yourself" in table
    rows = list(csv.DictReader(io.StringIO(data("list", "--format=csv"))))
    assert len(rows) == 106 and {
        "index",
        "year",
        "canonical_id",
        "dataset_id",
        "kind",
        "domain",
        "meta_split",
    } <= set(rows[0])
    assert [row["index"] for row in rows] == [str(n) for n in range(1, 107)]
    assert {row["state"] for row in rows} == {"downloadable", "to download yourself"}
    assert all(row["advice"] for row in rows)
    faces = list(
        csv.DictReader(
            io.StringIO(data("list", "--format=csv", "--domain=face", "--kind=multi_label"))
        )
    )
    assert [row["canonical_id"] for row in faces] == ["celeba", "biwi"]
    assert "'face'" in data("list", "--domain=faces", status=2)


def test_list_tells_of_other_classes_than_the_published_ones(data, tmp_path):
    (tmp_path / "shared/data").mkdir(parents=True)
    for name in ("brodatz7", "mnist"):
        (tmp_path / f"shared/data/{name}.npz").touch()
    rows = {
        row["canonical_id"]: row
        for row in csv.DictReader(io.StringIO(data("list", "--format=csv", "--state=ready")))
    }
    assert rows["mnist"]["state"] == "ready" and rows["mnist"]["num_classes"] == "10"
    assert rows["brodatz"]["state"] == "ready, with 7 classes instead of 111"
    assert rows["brodatz"]["num_classes"] == "7"
    parts = data("list", "--stream=split_brodatz", "--format=csv", "--state=classes")
    assert (
        "brodatz on this machine (shared file) has 7 classes; this task needs class 9 too" in parts
    )


def test_an_import_of_a_new_task_needs_its_year(data, pictures):
    assert "If the task is new, give its year" in data("import", pictures, "--task=mine", status=2)


def test_an_import_says_what_it_understood_and_what_it_left_out(imported):
    output = imported.said
    assert "mine: understood as 80 images (train 60, test 20) of 3 classes, single_label" in output
    assert "mine: left out: nothing" in output
    assert (
        "samples in the file: test 20, train 60; in the splits" in output
        and "train 40, dev 9, dev_test 9, test 20" in output
    )
    assert (
        "exact duplicates removed: 2, 0 within a part and 2 across parts"
        " (0 of them had different labels)" in output
    )
    assert "next: python -m launch.data show mine\n" in output


def test_a_second_import_replaces_the_first_one(data, pictures, own_copy):
    again = data("import", pictures, *NEW, f"--data_dir={own_copy}")
    assert "mine: replaces the data set of that name that was imported before (train 40" in again
    assert f"next: python -m launch.data show mine --data_dir={own_copy}\n" in again


@pytest.mark.usefixtures("own_copy")
def test_names_of_data_sets_differ_in_more_than_case(data, pictures, own_copy):
    said = data("import", pictures, "--task=Mine", "--year=2024", status=2)
    assert "Mine: the data set 'mine' is there already" in said
    (own_copy / "local/Mine").symlink_to("mine")  # as on a drive that ignores case
    assert "is of 'mine', since the drive ignores case" in data("show", "Mine", status=2)


@pytest.mark.usefixtures("damaged")
def test_a_task_whose_facts_have_changed_is_to_be_imported_again(data):
    said = data("show", "mine", status=2)
    assert "has changed" in said and "launch.data import FILE --task=mine.\n" in said


@pytest.mark.usefixtures("damaged")
def test_an_import_replaces_a_damaged_task_by_an_intact_one(data, pictures):
    again = data("import", pictures, *NEW, "--domain=noise")
    assert "that was imported before (damaged)" in again
    assert "mine (local): intact" in data("verify")


@pytest.mark.usefixtures("own_copy")
def test_a_task_is_shown_with_a_sheet_of_its_images(data, tmp_path):
    shown = data("show", "mine", f"--out={tmp_path / 'sheets'}")
    assert "mine: single_label, 3 classes" in shown and "1–16" in shown
    sheet = Image.open(tmp_path / "sheets/mine.png")
    assert sheet.size == (12 * 64, 3 * 64)


def test_verify_names_the_file_whose_content_has_changed(data, own_copy):
    (record,) = own_copy.glob("local/mine/1.0.0/mine-test.array_record-*")
    record.write_bytes(record.read_bytes()[:-1] + b"x")
    output = data("verify", "--task=mine", status=1)
    assert f"{record}: its content has changed" in output and "mine (local): DAMAGED" in output


def test_an_import_stands_for_a_task_and_overlaps_are_found(data, pictures, tmp_path):
    data("import", pictures, "--task=cifar10")
    with np.load(pictures) as file:
        np.savez(
            tmp_path / "later.npz",
            images=np.concatenate([file["images_train"][:30], 255 - file["images_train"]]),
            labels=np.arange(90) % 4,
        )
    data("import", tmp_path / "later.npz", "--task=stl10")
    (tmp_path / "s.csv").write_text(
        "order,year,task_id,dataset_id,meta_split\n1,2015,cifar10,cifar10,train\n2,2019,stl10,stl10,test\n"
    )
    rows = list(
        csv.DictReader(
            io.StringIO(data("overlap", f"--stream={tmp_path / 's.csv'}", "--format=csv"))
        )
    )
    assert {row["earlier"] for row in rows} == {"cifar10"} and {row["task_id"] for row in rows} == {
        "stl10"
    }
    assert 0 < sum(int(row["exact"]) for row in rows) < 30
    rows = {
        row["canonical_id"]: row
        for row in csv.DictReader(io.StringIO(data("list", "--format=csv")))
    }
    assert rows["cifar10"]["state"] == "ready, with 3 classes instead of 10"
    assert rows["cifar10"]["origin"] == "local"
    assert (
        rows["cifar100"]["state"] == "downloadable"
        and rows["cifar100"]["source"] == "www.cs.toronto.edu"
    )


@pytest.mark.parametrize("stream", ["pico", "omniglot"])
def test_prepare_says_so_where_nothing_needs_it(data, stream):
    output = data("prepare", f"--stream={stream}")
    assert f"Nothing to prepare: the tasks of {stream} are read from where they are." in output


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A place where three data sets were to be prepared, of which two cannot be, and what was
    said.
    """
    place = tmp_path_factory.mktemp("prepared")
    random = np.random.RandomState(0)
    (place / "mnist").mkdir()
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    arrays = (
        random.randint(0, 255, (40, 28, 28)),
        np.arange(40) % 10,
        random.randint(0, 255, (20, 28, 28)),
        np.arange(20) % 10,
    )
    for name, array in zip(names, arrays, strict=True):
        write_gz(place / f"mnist/{name}-ubyte.gz", idx(array))
    (place / "semeion.data").write_text("1 2 3\n")
    said = run(
        place,
        "prepare",
        "--task=not_mnist,semeion,mnist",
        f"--from={place}",
        "--offline",
        "--unverified",
        "--jobs=2",
        status=1,
    )
    return SimpleNamespace(place=place, said=said)


def test_prepare_goes_on_after_a_failure_and_tells_what_to_do(prepared):
    output = prepared.said
    assert "1 of 3 data sets are ready" in output and "Not ready, and what to do:" in output
    assert "not_mnist: notmnist.zip" in output and "log in to Kaggle" in output
    assert "semeion:" in output and "rows of 3 numbers" in output


def test_a_data_set_is_intact_though_others_could_not_be_prepared(prepared):
    assert "mnist (published): intact" in run(prepared.place, "verify")


def test_a_second_task_of_a_prepared_data_set_is_ready(data, prepared, tmp_path):
    shutil.copytree(prepared.place / "data", tmp_path / "data")
    output = data("prepare", "--task=mnist_2", "--offline")
    assert "1 of 1 data sets are ready" in output and "Ready: mnist" in output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name a subcommand: list, prepare, import, verify, show, overlap"),
        (["import", ".", f"--task={'x' * 300}", "--year=2000"], "--task has 300 bytes"),
        (["lst"], "'list'"),
        (["list", "--stream=ful"], "'full'"),
        (["list", "full"], "list takes flags only, not 'full'"),
        (["prepare"], "choose what to prepare, for example --stream=short"),
        (["prepare", "--task=mnits"], "'mnist'"),
        (["prepare", "--task=mnist", "--from=nowhere"], "--from=nowhere: "),
        (["prepare", "--task=mnist", "--store=tfrecord"], "array_record"),
        (["import", "x.npz"], "import needs --task: Name of the task"),
        (["import", "--task=mnist"], "import takes one FILE, not 0"),
        (["--stream=full", "list"], "--stream=full: flags come after the subcommand"),
        (["list", "--stram=full"], "'--stream'"),
        (["import", "nowhere.npz", "--task=mnist"], "nowhere.npz: "),
        (["verify", "--task=mnist"], "prepared data set 'mnist'"),
        (["show", "mnits"], "'mnist'"),
        (
            ["show", "mnist"],
            "data set 'mnist' is not on this machine: python -m launch.data prepare --task=mnist",
        ),
        (["overlap"], "overlap needs --stream: Name of a stream, or path of its csv."),
        (["overlap", "--stream=tiny"], "data sets are not on this machine"),
    ],
)
def test_mistakes_are_explained(data, words, message):
    assert message in data(*words, status=2)


def test_help_teaches(data):
    overview = data("--help")
    for name in ("list", "prepare", "import", "verify", "show", "overlap"):
        assert f"\n  {name} " in overview
    assert "--jobs" not in overview
    prepare = data("prepare", "--help")
    assert "Usage: python -m launch.data prepare [flags]" in prepare
    assert "\n  python -m launch.data prepare --stream=short\n" in prepare
    assert all(f"\n  --{name}: " in prepare for name in ("from", "data_dir", "jobs"))
    assert "--year" not in prepare and "--format" not in prepare


def test_data_dir_goes_before_the_environment(data, pictures, tmp_path):
    data("import", pictures, "--task=mine", "--year=2024", f"--data_dir={tmp_path / 'elsewhere'}")
    assert (tmp_path / "elsewhere/local/mine").is_dir() and not (tmp_path / "data").exists()
    assert "no data set is prepared" in data("verify")
