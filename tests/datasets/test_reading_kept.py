"""What files were understood as goes with the data: into prepared data, runs and reports."""

import contextlib
import csv
import io
import json
import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from nevis_stream import catalogue
from nevis_stream.datasets import prepared, prepared_images, sources
from nevis_stream.datasets.preparation import prepare
from nevis_stream.datasets.reading import Choices
from nevis_stream.datasets.splits import divide
from nevis_stream.errors import BadInput
from nevis_stream.report.build import write_report
from nevis_stream.run_directory import environment, outcomes
from nevis_stream.runner import run
from nevis_stream.streams.named_streams import load_stream
from tests import toy

pytestmark = pytest.mark.filterwarnings("ignore::nevis_stream.errors.DataWarning")
PETS = ("cat", "dog", "owl")


def pets(root, *parts):
    """Writes 20 images of noise for each pet in each part, and one beside the classes."""
    random = np.random.RandomState(0)
    for part in parts:
        for name in PETS:
            (root / part / name).mkdir(parents=True)
            for number in range(20):
                pixels = random.randint(255, size=(8, 8, 3)).astype(np.uint8)
                Image.fromarray(pixels).save(root / part / name / f"{name}_{number:02d}.png")
    Image.new("RGB", (8, 8)).save(root / "cover.png")
    return root


HEAD = "order,year,task_id,dataset_id,meta_split,path"


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """A run on a stream whose file has a choice, the stream, what was said when it was loaded, and
    the classes that were mistaken.
    """
    folder = tmp_path_factory.mktemp("shown")
    pets(folder / "pets", "train", "val")
    file = folder / "s.csv"
    file.write_text(f"{HEAD},parts\n1,2020,pets,pets,test,pets,val=test\n")
    with contextlib.redirect_stderr(io.StringIO()) as said:
        stream = load_stream(str(file))
    ledger = run(toy.ToyLearner(), stream, folder / "run")
    record = outcomes.read_mistakes(folder / "run/thumbnails/pets-mistakes.json")
    return SimpleNamespace(
        run_dir=folder / "run",
        stream=stream,
        said=said.getvalue(),
        complete=ledger.complete,
        mistakes=record.mistakes,
    )


def test_a_stream_whose_files_leave_a_choice_open_is_refused(tmp_path):
    pets(tmp_path / "pets", "train", "val")
    (tmp_path / "s.csv").write_text(f"{HEAD}\n1,2020,pets,pets,test,pets\n")
    with pytest.raises(BadInput, match="parts=val=test"):
        load_stream(str(tmp_path / "s.csv"))


def test_a_stream_says_what_its_files_were_understood_as(shown):
    understood = "pets: understood as 120 images (train 60, test 60) of 3 classes (cat,"
    assert shown.said.count(understood) == 1
    assert "pets: left out: images beside the class folders: 1 (cover.png)" in shown.said


def test_a_run_keeps_what_its_files_were_understood_as_with_the_choices(shown):
    assert shown.complete
    (row,) = csv.DictReader((shown.run_dir / "stream.csv").read_text().splitlines())
    assert (row["parts"], row["n_test"], row["kind"]) == ("val=test", "60", "single_label")
    kept = environment.read_readings(shown.run_dir / environment.READINGS_FILE)["pets"]
    assert kept.texts == shown.stream.readings["pets"].texts and kept.classes == list(PETS)


def test_mistakes_have_the_names_of_classes_and_files(shown):
    for mistake in shown.mistakes:
        assert mistake.true_name in PETS and mistake.predicted_name in PETS
        assert mistake.file_name.startswith(f"val/{mistake.true_name}/{mistake.true_name}_")


def test_a_report_shows_what_files_were_understood_as_and_their_mistakes(shown, tmp_path):
    page = write_report([shown.run_dir], tmp_path / "report").read_text()
    assert "understood as 120 images" in page and "1 (cover.png)" in page
    assert shown.mistakes[0].file_name in page


def test_a_choice_for_prepared_data_is_refused(tmp_path):
    head = "order,year,task_id,dataset_id,meta_split,parts"
    (tmp_path / "s.csv").write_text(f"{head}\n1,2020,a,pico_digits,test,val=test\n")
    with pytest.raises(BadInput, match=r"line 2: parts is chosen where a file is read"):
        load_stream(str(tmp_path / "s.csv"))


@pytest.fixture
def imported(tmp_path, monkeypatch):
    monkeypatch.setenv("NEVIS_STREAM_DATA", str(tmp_path / "data"))
    pets(tmp_path / "pets", "train", "val")
    choices = Choices(parts="val=dev")
    prepare.import_file(tmp_path / "pets", "my_pets", choices=choices, year=2020, form="raw")
    return prepared.find_directory("my_pets", "local")


def test_imported_data_keep_names_and_reading(imported):
    dataset = sources.load("my_pets", "local:my_pets")
    assert dataset.class_names == PETS
    assert dataset.reading.choices == {"parts": "val=dev"}
    assert json.loads((imported / prepared.ABOUT).read_text())["class_names"] == list(PETS)
    for name, samples in divide(dataset).items():
        part = "val" if name == "dev_test" else "train"
        for file, label in zip(samples.names, samples.labels, strict=True):
            assert file.startswith(f"{part}/{PETS[label]}/{PETS[label]}_")
    few = dataset.parts["train"].take(np.asarray([3, 1]))
    assert few.names == [dataset.parts["train"].names[i] for i in (3, 1)]
    assert not prepared.verify("my_pets", "local")


def test_what_an_earlier_version_imported_otherwise_is_refused_with_the_command(imported):
    about = imported / prepared.ABOUT
    facts = json.loads(about.read_text())
    del facts["reading"], facts["seal"]
    about.write_text(json.dumps(facts | {"seal": prepared.seal(facts)}))
    command = r"data import pets --task=my_pets --year=2020 --domain=unstated"
    with pytest.raises(
        BadInput, match=rf"earlier version, which read such files otherwise.*{command}"
    ):
        sources.load("my_pets", "local:my_pets")
    assert sources.find_state("local:my_pets").name == prepared.OUTDATED
    facts["sources"] = [{"file": "pets.npz"}]  # arrays were read alike
    about.write_text(json.dumps(facts | {"seal": prepared.seal(facts)}))
    assert sources.load("my_pets", "local:my_pets").reading is None
    assert sources.find_state("local:my_pets").ready


def test_a_shared_zip_that_was_imported_before_stays(tmp_path, monkeypatch):
    monkeypatch.setenv("NEVIS_STREAM_SHARED", str(tmp_path))
    file = tmp_path / catalogue.read_shared_files()["mpeg7"]["file"]
    file.parent.mkdir()
    file.write_bytes(b"as it was published")
    source = {"file": file.name, "bytes": 19, "sha256": prepared.hash_file(file)}
    facts = {"sources": [source]}
    monkeypatch.setattr(prepared, "read_about", lambda *_: facts)
    assert not prepared.suggest_preparing("mpeg7", "local")
    source["sha256"] = "0" * 64  # a zip of the user's under that name
    assert (
        prepared.suggest_preparing("mpeg7", "local") == "python -m launch.data prepare --task=mpeg7"
    )


def test_how_pixels_were_changed_is_kept_with_the_data_and_in_the_report(tmp_path, monkeypatch):
    monkeypatch.setenv("NEVIS_STREAM_DATA", str(tmp_path / "data"))
    pets(tmp_path / "pets", "train", "test")
    turned = Image.Exif()
    turned[0x0112] = 6
    first = tmp_path / "pets/train/cat/cat_00.png"
    Image.open(first).save(first, exif=turned)
    Image.open(first).convert("RGBA").save(tmp_path / "pets/test/dog/dog_00.png")
    prepare.import_file(tmp_path / "pets", "my_pets", year=2020, form="raw")
    about = json.loads((prepared.find_directory("my_pets", "local") / prepared.ABOUT).read_text())
    (note,) = [each for each in about["reading"]["notes"] if "orientation" in each]
    assert "cat_00.png" in note
    head = "order,year,task_id,dataset_id,meta_split"
    (tmp_path / "s.csv").write_text(f"{head}\n1,2020,my_pets,my_pets,test\n")
    run(toy.ToyLearner(), load_stream(str(tmp_path / "s.csv")), tmp_path / "run")
    assert "orientation" in write_report([tmp_path / "run"], tmp_path / "report").read_text()


@pytest.mark.parametrize("way", ["orientation", "transparent"])
def test_a_stored_image_that_is_shown_otherwise_now_is_refused_where_it_is_read(way, tmp_path):
    """As an earlier version stored files of published data: byte for byte."""
    image, options = Image.new("RGB", (6, 4), "red"), {}
    if way == "orientation":
        options["exif"] = Image.Exif()
        options["exif"][0x0112] = 6
    else:
        options["transparency"] = (255, 0, 0)
    plain, other = io.BytesIO(), io.BytesIO()
    image.save(plain, "PNG")
    image.save(other, "PNG", **options)
    records = [{"image": each.getvalue()} for each in (plain, other)]
    now = prepared_images.RecordImages(tmp_path, "train")
    before = prepared_images.RecordImages(tmp_path, "train", "data prepare --task=x --force")
    for source in (now, before):
        vars(source)["_records"] = records
        assert source.image(0).size == (6, 4)
    assert now.image(1).size == (6, 4)
    with pytest.raises(BadInput, match=rf"record 1: .*{way}.*earlier version.*--task=x --force"):
        before.image(1)
    assert pickle.loads(pickle.dumps(before)).remedy == before.remedy
