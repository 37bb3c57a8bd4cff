"""From archives to prepared data: every row of the catalogue, resuming, failures, downloads, copies
of TFDS.
"""

import dataclasses
import errno
import hashlib
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from nevis_stream import catalogue, runner
from nevis_stream.datasets import prepared, prepared_images, sources
from nevis_stream.datasets.preparation import fetch, prepare
from nevis_stream.datasets.preparation import write as writing
from nevis_stream.datasets.preparation.write import encode_png
from nevis_stream.errors import BadInput, DataWarning, StorageFull
from nevis_stream.streams.named_streams import load_stream
from nevis_stream.streams.stream import Stream
from tests import killed_child, toy
from tests.datasets.archives import from_2012, since_2018, to_2011
from tests.datasets.archives.making import DrawnImages, idx, write_gz, write_zip

tfds = pytest.importorskip("tensorflow_datasets")
MAKERS = to_2011.MAKERS | from_2012.MAKERS | since_2018.MAKERS
MNIST = [source.file for source in fetch.fetch_plan("mnist").sources]


@pytest.fixture(autouse=True)
def root(tmp_path, monkeypatch):
    """A data root of the test's own."""
    monkeypatch.setenv("NEVIS_STREAM_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "tfds"))
    return tmp_path / "data"


def mnist_files(folder, n=60, pixels=None):
    """Four idx files with the published names."""
    folder.mkdir(exist_ok=True)
    random = np.random.RandomState(0)
    pixels = (
        random.randint(0, 255, (n + n // 2, 28, 28), dtype=np.uint8) if pixels is None else pixels
    )
    labels = np.arange(len(pixels)) % 10
    for name, array in zip(MNIST, (pixels[:n], labels[:n], pixels[n:], labels[n:]), strict=True):
        write_gz(folder / name, idx(array))
    return folder


def run(dataset_id, folder, **options):
    return prepare.prepare(dataset_id, [folder], download=False, verified=False, **options)


@pytest.fixture
def files(tmp_path):
    """The folder of MNIST's files."""
    return mnist_files(tmp_path / "files")


@pytest.fixture
def ready(files):
    """The folder of MNIST, prepared."""
    return run("mnist", files)


def train_images():
    """MNIST's images of train, opened anew."""
    return prepared.load("mnist", "published").parts["train"].images


def test_every_data_set_has_an_archive():
    assert set(MAKERS) == set(catalogue.read_nevis22_datasets())


# `make test` takes every third row of the catalogue but those with the most files, `make test-all`
# all of them
MOST_FILES = ("caltech101", "cmu_amp", "lfwa", "tid2013")
ROWS = [
    pytest.param(name, marks=[pytest.mark.slow] if number % 3 or name in MOST_FILES else [])
    for number, name in enumerate(sorted(catalogue.read_nevis22_datasets()))
]


@pytest.mark.parametrize("dataset_id", ROWS)
def test_every_row_builds_a_builder(dataset_id, tmp_path):
    """From an archive of the published layout to TFDS's own reading of what was prepared."""
    (tmp_path / "files").mkdir()
    expected = MAKERS[dataset_id](tmp_path / "files")
    builder = tfds.builder_from_directory(run(dataset_id, tmp_path / "files"))
    about, row = (
        prepared.read_about(dataset_id, "published"),
        catalogue.read_nevis22_datasets()[dataset_id],
    )
    assert about["found"] == dict(expected.counts)
    assert about["classes_with_samples"] == expected.classes
    assert about["kind"] == row["kind"]
    if catalogue.read_file_layouts()[dataset_id].get("populated") != "any":
        assert about["num_classes"] == int(row["num_classes"])
    removed = about["exact_duplicates_removed"]
    assert (
        sum(about["splits"].values())
        == sum(expected.counts.values()) - removed["within_parts"] - removed["across_parts"]
    )
    assert {name: info.num_examples for name, info in builder.info.splits.items()} == about[
        "splits"
    ]
    dataset = prepared.load(dataset_id, "published")
    for split in ("train", "test"):
        samples, record = dataset.parts[split], builder.as_data_source(split)[0]
        assert record["id"].decode() == samples.ids[0]
        assert np.array_equal(record.get("label", record.get("labels")), samples.labels[0])
        pixels = record["image"]
        assert np.array_equal(
            samples.images[0], pixels if pixels.shape[2] == 3 else np.repeat(pixels, 3, axis=2)
        )
        assert tuple(samples.images.sizes[0]) == pixels.shape[:2]
    assert prepared.verify(dataset_id, "published") == []
    assert not (catalogue.find_data_root() / "unpacked" / dataset_id).exists()


@pytest.mark.parametrize(
    "name", sorted(name for name, row in catalogue.read_file_layouts().items() if "like" in row)
)
def test_variants_with_the_errors_of_the_reference_differ(name, tmp_path):
    (tmp_path / "files").mkdir()
    like = catalogue.read_file_layouts()[name]["like"]
    MAKERS[like](tmp_path / "files")
    for dataset_id in (like, name):
        run(dataset_id, tmp_path / "files")
    corrected, reference = prepared.load(like, "published"), prepared.load(name, "published")

    def content(dataset):
        return {
            (hashlib.sha256(np.ascontiguousarray(image)).hexdigest(), tuple(np.atleast_1d(label)))
            for samples in dataset.parts.values()
            for image, label in zip(samples.images, samples.labels, strict=True)
        }

    assert content(corrected) != content(reference)
    assert (
        sources.load(name, catalogue.read_datasets()[name]["source"]).fingerprint()
        == reference.fingerprint()
    )


def test_what_is_ready_is_left_as_it_is(ready, tmp_path):
    before = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in ready.iterdir()}
    assert run("mnist", tmp_path / "nowhere") == ready
    assert {
        path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in ready.iterdir()
    } == before


def test_force_makes_the_same(files, ready):
    before = {path.name: path.read_bytes() for path in ready.iterdir()}
    changed = (ready / prepared.ABOUT).stat().st_mtime_ns
    run("mnist", files, force=True)
    assert {path.name: path.read_bytes() for path in ready.iterdir()} == before
    assert (ready / prepared.ABOUT).stat().st_mtime_ns > changed


def test_a_preparation_leaves_no_temporary_folder(files, tmp_path, monkeypatch):
    """TFDS would."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    run("mnist", files)
    assert not list((tmp_path / "temporary").iterdir())


@pytest.mark.usefixtures("ready")
def test_raw_arrays_hold_the_same_samples(files):
    records = prepared.load("mnist", "published")
    fingerprint = records.fingerprint()
    pixels = {name: np.stack(list(samples.images)) for name, samples in records.parts.items()}
    run("mnist", files, form="raw", force=True)
    raw = prepared.load("mnist", "published")
    assert raw.fingerprint() == fingerprint
    for name, samples in raw.parts.items():
        assert np.array_equal(np.stack(list(samples.images)), pixels[name])
        assert np.array_equal(
            samples.images.resized(32)[:3], records.parts[name].images.resized(32)[:3]
        )


def test_images_of_several_sizes_are_no_raw_array(tmp_path):
    (tmp_path / "varied").mkdir()
    MAKERS["butterflies"](tmp_path / "varied")
    write_zip(tmp_path / "varied/butterflies.zip", varied_butterflies())
    with pytest.raises(BadInput, match="images of several sizes cannot be stored with --store=raw"):
        run("butterflies", tmp_path / "varied", form="raw")


def varied_butterflies():
    numbers = catalogue.read_file_layouts()["butterflies"]["read"][0]["parts_by_list"]["members"]
    pictures = DrawnImages()
    return {
        f"{name}/x{number}.jpg": pictures.file("jpg", 8 + number % 3)
        for name, listed in numbers.items()
        for number in (*listed[:2], 200, 201, 202)
    }


def test_exact_duplicates_go_and_are_told(tmp_path):
    pixels = np.random.RandomState(1).randint(0, 255, (90, 28, 28), dtype=np.uint8)
    pixels[7] = pixels[3]  # within train, other label
    pixels[70] = pixels[20]  # in test and train: the test image stays
    run("mnist", mnist_files(tmp_path / "files", pixels=pixels))
    about = prepared.read_about("mnist", "published")
    assert about["exact_duplicates_removed"] == {
        "within_parts": 1,
        "across_parts": 1,
        "other_label": 1,
    }
    assert about["found"] == {"train": 60, "test": 30} and sum(about["splits"].values()) == 88
    ids = {
        samples.ids[i]
        for samples in prepared.load("mnist", "published").parts.values()
        for i in range(len(samples))
    }
    assert {"mnist/train/3", "mnist/test/10"} <= ids and not {
        "mnist/train/7",
        "mnist/train/20",
    } & ids


def test_a_missing_class_is_an_error(tmp_path):
    pixels = np.random.RandomState(1).randint(0, 255, (9, 28, 28), dtype=np.uint8)
    with pytest.raises(
        BadInput, match="mnist: 1 of 10 classes have no sample. Found: 0, 1, 2, 3, 4, 5, 6, 7, 8."
    ):
        run("mnist", mnist_files(tmp_path / "files", n=6, pixels=pixels))


def test_a_corrupt_image_is_named(tmp_path):
    members = varied_butterflies() | {"zebra/x203.jpg": b"\xff\xd8 no image"}
    (tmp_path / "files").mkdir()
    write_zip(tmp_path / "files/butterflies.zip", members)
    with pytest.raises(BadInput, match="zebra/x203.jpg: "):
        run("butterflies", tmp_path / "files")
    write_zip(tmp_path / "files/butterflies.zip", varied_butterflies())
    run("butterflies", tmp_path / "files", force=True)


def test_a_wrong_checksum_is_an_error(tmp_path):
    files = mnist_files(tmp_path / "files")
    with pytest.raises(
        BadInput,
        match=f"{MNIST[0]}: its MD5 is .*, but the published one is f68b3c2d.*--unverified",
    ):
        prepare.prepare("mnist", [files], download=False)


def test_what_is_missing_is_the_one_thing_to_do(tmp_path):
    for dataset_id, advice in {
        "not_mnist": (
            "notmnist.zip is missing: log in to Kaggle and download"
            " https://www.kaggle.com/datasets/jwjohnson314/notmnist"
        ),
        "caltech256": "open https://drive.google.com.* in a browser .*--from=FOLDER",
        "imagenet": "register at https://www.image-net.org/",
    }.items():
        with pytest.raises(BadInput, match=f"{dataset_id}: .*{advice}"):
            prepare.prepare(dataset_id)


@pytest.fixture
def server(tmp_path):
    """An HTTP server on this machine over a folder; yields the folder and its address."""

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args):
            super().__init__(*args, directory=str(tmp_path / "served"))

        def log_message(self, *_):
            pass

    (tmp_path / "served").mkdir()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield tmp_path / "served", f"http://127.0.0.1:{served.server_port}"
        served.shutdown()


@pytest.fixture
def served(server, monkeypatch):
    """The folder of a server that has MNIST's files, with these as the published ones."""
    folder, address = server
    mnist_files(folder)
    plan = fetch.fetch_plan("mnist")
    sources = [
        dataclasses.replace(
            s,
            url=f"{address}/{s.file}",
            md5=hashlib.md5((folder / s.file).read_bytes()).hexdigest(),
        )
        for s in plan.sources
    ]
    monkeypatch.setattr(
        fetch, "fetch_plan", lambda dataset_id: dataclasses.replace(plan, sources=tuple(sources))
    )
    return folder


def test_a_download_that_fails_is_named_and_the_others_are_kept(served, root):
    (served / MNIST[3]).unlink()
    with pytest.raises(
        BadInput,
        match=rf"mnist: http://127.*{MNIST[3]}: the download failed \(status 404\). Or see",
    ):
        prepare.prepare("mnist")
    assert sorted(p.name for p in (root / "downloads/mnist").iterdir()) == sorted(MNIST[:3])


def test_a_download_of_another_file_is_refused(served):
    (served / MNIST[3]).write_bytes(b"another file")
    with pytest.raises(BadInput, match="the downloaded file does not have the published MD5"):
        prepare.prepare("mnist")


def test_downloads_go_on_with_what_is_missing(served):
    (served / MNIST[3]).rename(served / "gone")
    with pytest.raises(BadInput, match="the download failed"):
        prepare.prepare("mnist")
    (served / "gone").rename(served / MNIST[3])
    for name in MNIST[:3]:
        (served / name).unlink()
    prepare.prepare("mnist")
    assert prepared.read_about("mnist", "published")["splits"]["test"] == 30


def test_a_server_that_does_not_answer_is_named(monkeypatch):
    plan = fetch.fetch_plan("mnist")
    dead = tuple(dataclasses.replace(s, url="http://127.0.0.1:9/" + s.file) for s in plan.sources)
    monkeypatch.setattr(
        fetch, "fetch_plan", lambda dataset_id: dataclasses.replace(plan, sources=dead)
    )
    with pytest.raises(
        BadInput, match=r"http://127.0.0.1:9/.*: the download failed \(ConnectionError\)"
    ):
        prepare.prepare("mnist")


def test_a_copy_that_tfds_has_prepared_is_used(tmp_path):
    """The copy is an array_record one, which needs no TensorFlow; its splits and names are those of
    TFDS's MNIST.
    """
    pictures = DrawnImages()
    arrays = {
        "train": [pictures.array(28, 28, 1) for _ in range(40)],
        "test": [pictures.array(28, 28, 1) for _ in range(20)],
    }

    base = tfds.core.GeneratorBasedBuilder

    class Mnist(base, skip_registration=True):  # type: ignore[call-arg]
        VERSION = tfds.core.Version("3.0.1")
        name = "mnist"

        def _info(self):
            features = {
                "image": tfds.features.Image(shape=(28, 28, 1)),
                "label": tfds.features.ClassLabel(num_classes=10),
            }
            return tfds.core.DatasetInfo(
                builder=self, features=tfds.features.FeaturesDict(features)
            )

        def _split_generators(self, manager):
            return {name: self._generate_examples(name) for name in arrays}

        def _generate_examples(self, name):
            for index, array in enumerate(arrays[name]):
                yield index, {"image": encode_png(array), "label": index % 10}

    Mnist(data_dir=str(tmp_path / "tfds"), file_format="array_record").download_and_prepare()
    assert (
        fetch.find_newest_copy("mnist") == tmp_path / "tfds/mnist/3.0.1"
        and fetch.find_newest_copy("usps") is None
    )
    prepare.prepare("mnist", download=False)
    about = prepared.read_about("mnist", "published")
    assert about["found"] == {"train": 40, "test": 20} and about["sources"] == [
        {"tfds": "mnist 3.0.1"}
    ]
    images = prepared.load("mnist", "published").parts["test"].images
    results = {np.asarray(image)[..., 0].tobytes() for image in images}
    assert results == {array.tobytes() for array in arrays["test"]}


# -- prepared data
# ----------------------------------------------------------------------------------------------------------  # noqa: E501


def test_bit_rot_is_named_by_file(ready):
    assert prepared.verify("mnist", "published") == []
    for path in sorted(ready.iterdir()):
        data = path.read_bytes()
        path.write_bytes(
            data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :]
        )
        wrong = prepared.verify("mnist", "published")
        assert wrong and path.name in wrong[0], (path, wrong)
        path.write_bytes(data)


def test_files_that_are_missing_and_those_of_others_are_named(ready):
    (ready / "test.safetensors").unlink()
    (ready / "stranger").write_text("x")
    assert [line.partition(": ")[2] for line in prepared.verify("mnist", "published")] == [
        "is missing",
        "was not written by the preparation",
    ]


def test_a_derived_array_of_which_a_killed_process_wrote_half_is_deleted(files, root):
    run("mnist", files, form=prepared.RAW)

    def derive():
        train_images().resized(16)

    assert not killed_child.survives(derive, 2)  # its folder is made, its name is not
    (left,) = (root / "derived").iterdir()
    assert left.name.startswith(".tmp-") and left.stat().st_size > 0
    assert killed_child.survives(derive, 10**6)
    (array,) = (root / "derived").iterdir()
    assert array.suffix == ".npy" and not array.name.startswith(".")


def test_what_was_unpacked_is_deleted_where_a_data_set_is_ready(files, ready, root):
    unpacked = root / "unpacked" / "mnist"
    unpacked.mkdir()
    (unpacked / "train").write_bytes(b"images")
    assert run("mnist", files) == ready
    assert not unpacked.exists()


@pytest.fixture
def derived(ready):
    """What an array derived from MNIST's images of train contains."""
    return np.array(train_images().resized(16))


@pytest.fixture
def kept(derived, root):
    """The file in which it is kept."""
    (file,) = (root / "derived").iterdir()
    return file


@pytest.mark.usefixtures("ready")
def test_derived_arrays_are_mapped():
    images = train_images()
    derived = images.resized(16)
    assert isinstance(derived, np.memmap) and derived.shape == (len(images), 16, 16, 3)
    by_hand = np.asarray(Image.fromarray(images[5]).resize((16, 16), Image.Resampling.BILINEAR))
    assert np.array_equal(derived[5], by_hand)


def test_derived_arrays_are_kept(derived, kept):
    changed = kept.stat().st_mtime_ns
    assert np.array_equal(train_images().resized(16), derived)
    assert kept.stat().st_mtime_ns == changed


def test_images_derived_of_a_subset_are_those_of_all(derived):
    images = train_images()
    subset = images.take(np.asarray([4, 1]))
    assert np.array_equal(subset.resized(16), derived[[4, 1]])
    assert np.array_equal(subset.sizes, images.sizes[[4, 1]])


def test_a_derived_array_whose_file_is_none_is_computed_again(derived, kept):
    kept.write_bytes(b"damaged")
    assert np.array_equal(train_images().resized(16), derived)


@pytest.mark.skipif(not Path("/proc/self/smaps").is_file(), reason="no /proc/self/smaps here")
def test_rows_of_a_large_derived_array_do_not_stay_in_memory(tmp_path, root, monkeypatch):
    run("mnist", mnist_files(tmp_path / "files"))
    images = prepared.load("mnist", "published").parts["train"].images
    expected, rows = np.array(images.resized(32)), np.arange(len(images))[::-2]
    (file,) = (root / "derived").iterdir()

    def resident():
        mapping = Path("/proc/self/smaps").read_text().partition(str(file))[2]
        return int(re.search(r"Rss: +(\d+) kB", mapping)[1])

    for kept in (prepared_images._RESIDENT, 0):
        monkeypatch.setattr(prepared_images, "_RESIDENT", kept)
        assert np.array_equal(images.resized_rows(32, rows), expected[rows])
        assert (resident() > 0) == (kept > 0)


def test_two_processes_derive_the_same_array_at_once(tmp_path, root):
    run("mnist", mnist_files(tmp_path / "files", n=600))
    program = (
        "import hashlib; from nevis_stream.datasets import prepared\n"
        "images = prepared.load('mnist', 'published').parts['train'].images\n"
        "print(hashlib.sha256(images.resized(40).tobytes()).hexdigest())"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    answers = {process.communicate()[0] for process in running}
    assert len(answers) == 1 and all(process.returncode == 0 for process in running)
    assert len(list((root / "derived").iterdir())) == 1


def test_a_full_disk_is_told_and_leaves_nothing(tmp_path, root, monkeypatch):
    files = mnist_files(tmp_path / "files")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(writing, "save", full)
        with pytest.raises(StorageFull, match="Nothing already written is lost"):
            run("mnist", files)
    assert not prepared.is_ready("mnist", "published")
    run("mnist", files)
    assert prepared.verify("mnist", "published") == []


@pytest.mark.parametrize(
    "number", [3, *(pytest.param(n, marks=pytest.mark.slow) for n in (0, 1, 2, 4, 5))]
)
def test_a_killed_preparation_goes_on_to_the_same(tmp_path, number):
    """SIGKILL at six instants of a real process; the second try ends as if nothing had happened."""
    files = mnist_files(tmp_path / "files", n=3000)
    command = [
        sys.executable,
        "-m",
        "launch.data",
        "prepare",
        "--task=mnist",
        f"--from={files}",
        "--unverified",
        "--offline",
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    time.sleep(0.8 + 0.35 * number)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "1 of 1 data sets are ready" in done.stdout, done.stderr
    assert prepared.verify("mnist", "published") == []
    folder = prepared.find_directory("mnist", "published")
    assert [path.name for path in folder.parent.iterdir() if path.name.startswith(".tmp")] == []
    assert prepared.read_about("mnist", "published")["splits"] == {
        "train": 2100,
        "dev": 450,
        "dev_test": 450,
        "test": 1500,
    }


def test_a_kill_at_any_instant_leaves_the_old_data_or_the_new(tmp_path, root):
    """Prepared again with --force: at the next start one of them is ready and intact."""
    for n in (60, 90):
        np.savez(
            tmp_path / f"{n}.npz",
            images=np.random.RandomState(n).randint(0, 255, (n, 8, 8), dtype=np.uint8),
            labels=np.arange(n) % 3,
        )

    def imported(n):
        return prepare.import_file(tmp_path / f"{n}.npz", "own", form="raw")

    imported(60)
    sizes, fatal, survived = [], 0, False
    while not survived:
        fatal += 1
        shutil.copytree(root, tmp_path / "before", dirs_exist_ok=True)
        survived = killed_child.survives(lambda: imported(90), fatal)
        assert prepared.is_ready("own", "local"), f"lost by a kill at change {fatal}"
        assert prepared.verify("own", "local") == []
        sizes.append(sum(prepared.read_about("own", "local")["splits"].values()))
        shutil.rmtree(root)
        shutil.copytree(tmp_path / "before", root)
    assert sizes == sorted(sizes) and set(sizes) == {60, 90}


# -- imports
# ----------------------------------------------------------------------------------------------------------------  # noqa: E501


def test_a_data_set_that_is_not_here_is_told_how_to_be_prepared(tmp_path, monkeypatch):
    monkeypatch.setenv("NEVIS_STREAM_SHARED", str(tmp_path / "nowhere"))
    with pytest.raises(
        BadInput,
        match=(
            r"data set 'mnist' is not on this machine: python -m launch.data prepare --task=mnist"
        ),
    ):
        sources.load("mnist", "nevis22:mnist")


@pytest.mark.parametrize("read", [sources.find_state, lambda source: sources.load("mnist", source)])
def test_a_source_that_does_not_exist_is_compared_with_those_that_do(read):
    with pytest.raises(BadInput, match="'nevis2'.*'nevis22'"):
        read("nevis2:mnist")


@pytest.fixture
def own_mnist(tmp_path, monkeypatch):
    """A file of 4 classes is imported as MNIST, which is not on this machine otherwise."""
    monkeypatch.setenv("NEVIS_STREAM_SHARED", str(tmp_path / "nowhere"))
    random = np.random.RandomState(0)
    np.savez(
        tmp_path / "m.npz",
        images=random.randint(0, 255, (50, 9, 9), dtype=np.uint8),
        labels=np.arange(50) % 4,
    )
    prepare.import_file(tmp_path / "m.npz", "mnist")


@pytest.fixture
def of_mnist(tmp_path):
    """A stream of MNIST alone."""
    path = tmp_path / "s.csv"
    path.write_text("order,year,task_id,dataset_id,meta_split\n1,2004,mnist,mnist,test\n")
    return str(path)


@pytest.mark.usefixtures("own_mnist")
def test_an_import_brings_its_own_classes():
    dataset = sources.load("mnist", "nevis22:mnist")
    assert dataset.local and dataset.num_classes == 4
    assert sources.find_state("nevis22:mnist") == sources.DataState(
        "ready", origin="local", kind="single_label", num_classes=4
    )


@pytest.mark.usefixtures("own_mnist")
def test_a_stream_with_an_import_is_marked(of_mnist):
    assert load_stream(of_mnist).digest.endswith("-local")


@pytest.mark.usefixtures("own_mnist")
def test_a_part_of_a_stream_with_an_import_is_marked():
    partial = load_stream("full+partial")
    assert [task.task_id for task in partial.tasks] == ["mnist", "mnist_2"]
    assert partial.digest.endswith("-local-partial")


@pytest.mark.usefixtures("own_mnist")
def test_a_published_data_set_goes_before_an_import_of_its_name(of_mnist, files):
    run("mnist", files)
    assert not load_stream(of_mnist).digest.endswith("-local")


def test_split_mnist_is_made_of_the_published_data_set(tmp_path):
    run("mnist", mnist_files(tmp_path / "files", n=600))
    split = load_stream("split_mnist")
    assert [task.num_classes for task in split.tasks] == [2] * 5
    assert split.tasks[-1].meta_split == "test"
    samples = split.splits(split.tasks[1])["train"]
    assert set(samples.labels.tolist()) == {0, 1} and samples.ids[0].startswith("mnist/train/")
    assert len({split.dataset(task).fingerprint() for task in split.tasks}) == 5


def test_prepared_json_tells_where_it_came_from(tmp_path):
    files = mnist_files(tmp_path / "files")
    about = json.loads((run("mnist", files) / "prepared.json").read_bytes())
    assert [source["file"] for source in about["sources"]] == MNIST
    assert (
        about["sources"][0]["sha256"] == hashlib.sha256((files / MNIST[0]).read_bytes()).hexdigest()
    )
    assert about["checksums"] == "not compared" and len(about["fingerprint"]) == 64
    assert Path(files).is_dir()


def zeroed(path, start, count):
    content = bytearray(path.read_bytes())
    content[start : start + count] = bytes(count)
    path.write_bytes(content)


@pytest.fixture
def raw(files):
    """The folder of MNIST, prepared as arrays."""
    return run("mnist", files, form="raw")


def test_damaged_prepared_pixels_are_refused_and_the_others_are_read(raw):
    zeroed(raw / "train.npy", 128 + 3 * 28 * 28, 28 * 28)
    images = train_images()
    assert images[2].any()
    with pytest.raises(BadInput, match=r"train\.npy: image 3 has changed since it was prepared"):
        images.resized(16)


def test_an_empty_prepared_array_is_refused(raw):
    (raw / "test.npy").write_bytes(b"")
    with pytest.raises(BadInput, match=r"test\.npy: "):
        prepared.load("mnist", "published")


def test_damaged_prepared_labels_are_refused(raw):
    labels = raw / "train.safetensors"
    zeroed(labels, labels.stat().st_size - 64, 64)
    with pytest.raises(BadInput, match=r"train\.safetensors: its content"):
        prepared.load("mnist", "published")


@pytest.fixture
def rotten(kept):
    """The same file with a damaged row."""
    zeroed(kept, 128 + 2 * 768, 768)
    return kept


def test_an_intact_derived_array_has_no_problems(kept):
    assert prepared_images.find_array_problems(kept.parent) == []


def test_a_damaged_derived_array_is_named(rotten):
    (line,) = prepared_images.find_array_problems(rotten.parent)
    assert line.startswith(f"{rotten}: has changed")


def test_of_a_damaged_derived_array_intact_rows_alone_are_read(derived, rotten, monkeypatch):
    monkeypatch.setattr(prepared_images, "_RESIDENT", 0)  # only the rows that are read
    assert np.array_equal(train_images().resized_rows(16, np.arange(2)), derived[:2])
    with pytest.raises(BadInput, match=f"{rotten.name}: .*Delete it"):
        train_images().resized_rows(16, np.array([5, 2]))


def test_a_damaged_derived_array_is_computed_again(derived, rotten):
    with pytest.warns(DataWarning, match="so it is computed again"):
        assert np.array_equal(train_images().resized(16), derived)
    assert prepared_images.find_array_problems(rotten.parent) == []


def test_a_derived_array_of_an_earlier_version_is_deleted_where_its_own_is_computed(derived, kept):
    np.save(kept.parent / kept.name.replace("-v2", "-v1"), derived)  # without checksums
    kept.write_bytes(b"")
    assert np.array_equal(train_images().resized(16), derived)
    assert list(kept.parent.iterdir()) == [kept]


@pytest.mark.parametrize("file", ["test.npy", "train.safetensors", "prepared.json"])
def test_a_run_that_was_killed_is_not_continued_on_damaged_data(tmp_path, file):
    run("mnist", mnist_files(tmp_path / "files"), form="raw")
    folder = prepared.find_directory("mnist", "published")

    def continue_run():
        sets = [toy.blobs("alpha"), prepared.load("mnist", "published")]
        stream = Stream.from_datasets("s", sets, [2000, 2010], meta_test=1)
        return runner.run(toy.ToyLearner(), stream, tmp_path / "run")

    child = os.fork()
    if child == 0:
        try:
            train = toy.ToyLearner.train
            toy.ToyLearner.train = lambda self, task, state, ctx: (
                os.kill(os.getpid(), signal.SIGKILL)
                if task.task_id == "mnist"
                else train(self, task, state, ctx)
            )
            continue_run()
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    before = (tmp_path / "run" / "ledger.jsonl").read_bytes()
    assert before.count(b"\n") > 1
    sound = (folder / file).read_bytes()
    zeroed(folder / file, len(sound) // 2, len(sound) // 4)
    with pytest.raises(BadInput, match="again with --force") as caught:
        continue_run()
    assert str(folder / file) in str(caught.value)
    assert prepared.verify("mnist", "published")
    assert (tmp_path / "run" / "ledger.jsonl").read_bytes().startswith(before)
    run("mnist", tmp_path / "files", form="raw", force=True)
    assert continue_run().complete


def test_a_changed_fact_of_prepared_data_is_refused(tmp_path):
    file = run("mnist", mnist_files(tmp_path / "files")) / prepared.ABOUT
    facts = json.loads(file.read_text())
    file.write_text(json.dumps(facts | {"num_classes": 11}))
    with pytest.raises(BadInput, match=r"prepared\.json: its content.*--force"):
        prepared.load("mnist", "published")
    assert any(prepared.ABOUT in line for line in prepared.verify("mnist", "published"))
