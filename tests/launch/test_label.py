"""launch.label: a session from the first command to the report, and what is refused."""

import csv
import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from nevis_stream.active_testing.labelling.pools import PoolImages, load_pool, read_probabilities
from nevis_stream.active_testing.labelling.session import Session
from nevis_stream.active_testing.surrogate import SurrogateData
from nevis_stream.configs.tested_models import TestedModel
from nevis_stream.datasets.images import ArrayImages
from nevis_stream.errors import BadInput
from nevis_stream.experiments.study_record import StudyRecord
from nevis_stream.launch.label_commands.surrogate_data import Subject, pool_labels, reorder_classes
from nevis_stream.storage import checkpoint
from tests import forked

CLASSES = 3


def command(*words, start=forked.run, **options):
    return start("launch.label", *words, **options)


def softmax(x):
    powers = np.exp(x)
    return powers / powers.sum(axis=1, keepdims=True)


def write_material(folder):
    """A pool in a file, two models' probabilities, and what is needed to label."""
    random = np.random.default_rng(0)
    labels = random.integers(CLASSES, size=120)
    images = (random.integers(0, 90, (120, 10, 10)) + 50 * labels[:, None, None]).astype(np.uint8)
    np.savez(folder / "pool.npz", images=images, labels=labels)
    np.savez(folder / "unlabelled.npz", images=images)
    for name in "ab":
        logits = 2 * np.eye(CLASSES)[labels] + random.normal(0, 1, (120, CLASSES))
        np.savez(folder / f"{name}.npz", probabilities=softmax(logits))


@pytest.fixture
def folder(tmp_path):
    write_material(tmp_path)
    return tmp_path


def label(folder, session, number, labels, name="labels.csv"):
    """Fills in a round's csv."""
    with open(session / "rounds" / f"{number:03d}" / "to_label.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["label"] = str(labels[int(row["sample"])])
    with open(folder / name, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return folder / name


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """A session of two models after two rounds of 50 labels, and what was said on the way."""
    folder = tmp_path_factory.mktemp("labelled")
    write_material(folder)
    labels, session = np.load(folder / "pool.npz")["labels"], folder / "session"
    models = [f"--model={folder / 'a.npz'}", f"--model={folder / 'b.npz'}"]
    pool = f"--pool={folder / 'pool.npz'}"
    begun = command("start", *models, pool, f"--out={session}", start=forked.alone)
    assert begun.returncode == 0, begun.stderr
    recorded, early = [], []
    for number in (1, 2):
        assert command("next", session, "--count=50").returncode == 0
        filled = label(folder, session, number, labels)
        recorded.append(command("record", filled, f"--session={session}"))
        early.append(command("status", session, "--until=1"))
    return SimpleNamespace(
        session=session,
        models=models,
        pool=pool,
        begun=begun,
        filled=filled,
        recorded=recorded,
        early=early,
    )


@pytest.fixture
def session(labelled, tmp_path):
    """A copy of the session, to be changed, with the images that it names."""
    shutil.copyfile(labelled.session.parent / "pool.npz", tmp_path / "pool.npz")
    return shutil.copytree(labelled.session, tmp_path / "session")


def test_a_session_of_two_models_is_begun(labelled):
    assert "120 samples, 3 classes, 2 models, loss zero_one" in labelled.begun.stdout


def test_the_labels_of_each_round_are_recorded_and_counted(labelled):
    for number, done in enumerate(labelled.recorded, start=1):
        assert done.returncode == 0, done.stderr
        assert f"50 labels recorded\n{50 * number} of 120 samples have a label" in done.stdout


def test_labelling_does_not_stop_before_there_are_enough_labels(labelled):
    first, second = labelled.early
    assert first.returncode == 1, first.stdout
    assert "labelling may stop from 100 labels on" in first.stdout
    assert second.returncode == 0, second.stdout
    assert "labelling may stop from 100 labels on" not in second.stdout


def test_labels_that_are_recorded_again_are_counted_as_before(labelled, session):
    again = command("record", labelled.filled, f"--session={session}")
    assert "0 labels recorded, 50 as before" in again.stdout


def test_labelling_stops_at_an_interval_that_is_narrow_enough(labelled):
    narrow = command("status", labelled.session, "--until=0.001")
    assert narrow.returncode == 1 and "not yet 0.001: the interval of" in narrow.stdout
    wide = command("status", labelled.session, "--until=1")
    assert wide.returncode == 0 and "labelling may stop" in wide.stdout
    assert "a.npz minus" in wide.stdout


def test_the_report_of_a_session_is_a_page_with_its_tables(session):
    page = command("report", session)
    assert page.returncode == 0, page.stderr
    assert {file.name for file in (session / "report").iterdir()} == {
        "report.html",
        "estimates.csv",
        "hardest.csv",
        "hardest.png",
        "calibration.csv",
    }


def test_continuing_without_new_samples_is_refused(labelled, session):
    grown = command("start", "--continue", labelled.pool, *labelled.models, f"--out={session}")
    assert grown.returncode == 2 and "120 of its 120 samples are in the session" in grown.stderr


def test_continuing_with_the_models_in_another_order_is_refused(labelled, session):
    models = labelled.models[::-1]
    swapped = command("start", "--continue", labelled.pool, *models, f"--out={session}")
    assert swapped.returncode == 2 and "in the order of the session" in swapped.stderr


CONTINUE = ["start", "--continue", "--pool=more.npz:more", "--classes=a,b,c"]


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    """A folder with a session of named classes and with samples to be added to it."""
    folder = tmp_path_factory.mktemp("named")
    write_material(folder)
    words = ["--model=a.npz", "--pool=pool.npz", "--classes=a,b,c", "--out=session"]
    begun = command("start", *words, cwd=folder)
    assert begun.returncode == 0, begun.stderr
    with np.load(folder / "pool.npz") as arrays:
        np.savez(folder / "more.npz", images_more=arrays["images"])
    return folder


@pytest.fixture(scope="module")
def grown(named, tmp_path_factory):
    """The same session after the samples were added, and what was said."""
    session = shutil.copytree(named / "session", tmp_path_factory.mktemp("grown") / "session")
    words = ["--model=a.npz", "--uniform=0.5", "--seed=0", f"--out={session}"]
    done = command(*CONTINUE, *words, cwd=named)
    assert done.returncode == 0, done.stderr
    return SimpleNamespace(session=session, said=done.stdout)


@pytest.mark.parametrize(
    "flag,used",
    [
        ("--loss=cross_entropy", "zero_one"),
        ("--rule=bald", "rms_loss"),
        ("--uniform=0.3", "0.5"),
        ("--seed=3", "0"),
        ("--surrogate=heads", "tested_model"),
        ("--classes=a,c,b", "a,b,c"),
    ],
)
def test_continuing_with_other_settings_is_refused(named, tmp_path, flag, used):
    session = shutil.copytree(named / "session", tmp_path / "session")
    other = command(*CONTINUE, "--model=a.npz", flag, f"--out={session}", cwd=named)
    assert other.returncode == 2, other.stdout
    assert f"{flag}: the session was begun with {used}, and" in other.stderr


def test_a_session_continues_with_its_settings_and_new_samples(grown):
    assert "120 samples added, 240 now" in grown.said


def test_samples_that_were_added_can_be_deleted_and_added_again(named, grown, tmp_path):
    session = shutil.copytree(grown.session, tmp_path / "session")
    assert f"if that is wrong, delete {grown.session / 'generation-1'}" in grown.said
    shutil.rmtree(session / "generation-1")
    again = command(*CONTINUE, "--model=a.npz", f"--out={session}", cwd=named)
    assert again.returncode == 0 and "120 samples added, 240 now" in again.stdout, again.stderr


def test_new_probabilities_are_brought_into_the_order_of_the_sessions_classes(named, tmp_path):
    session = shutil.copytree(named / "session", tmp_path / "session")
    values = np.load(named / "a.npz")["probabilities"]
    other = tmp_path / "other.npz"
    np.savez(other, probabilities=values[:, ::-1], classes=["c", "b", "a"])
    done = command(*CONTINUE, f"--model={other}", f"--out={session}", cwd=named)
    assert done.returncode == 0, done.stderr
    new = Session(session).pool_parts[1]
    assert np.array_equal(new.data.predictions, values)  # what the surrogate starts from
    assert np.array_equal(new.predictions[0], values)


def draw_photos(folder):
    """Begins a session with a folder of photographs and draws 5 from elsewhere."""
    write_material(folder)
    (folder / "photos").mkdir()
    for number in range(120):
        Image.new("L", (12, 9), number).save(folder / "photos" / f"{number:03d}.png")
    begun = command("start", "--model=a.npz", "--pool=photos", "--out=session", cwd=folder)
    assert begun.returncode == 0, begun.stderr
    (folder / "elsewhere").mkdir()
    done = command("next", "../session", "--count=5", cwd=folder / "elsewhere")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def photographed(tmp_path_factory):
    """A folder of such a session."""
    folder = tmp_path_factory.mktemp("photographed")
    draw_photos(folder)
    return folder


def drawn_photos(folder):
    """The names of the photographs that were drawn."""
    rows = json.loads((folder / "session" / "draws.jsonl").read_text())["draws"][0]["samples"]
    ids = json.loads((folder / "session" / "generation-0" / "ids.json").read_text())["ids"]
    return [ids[row] for row in rows]


def test_a_folder_of_photographs_is_found_from_everywhere(photographed):
    assert len(drawn_photos(photographed)) == 5


def test_a_session_is_the_same_by_other_paths_to_its_files(photographed):
    words = ["--model=../a.npz", "--pool=../photos", "--out=../session"]
    begun = command("start", *words, cwd=photographed / "elsewhere")
    assert begun.returncode == 0, begun.stderr


def test_a_model_is_shown_by_the_name_of_its_file(photographed):
    assert "│ a.npz " in command("status", "session", cwd=photographed).stdout


def test_a_session_may_draw_no_sample_uniformly(photographed, tmp_path):
    words = ["--model=a.npz", "--pool=photos", "--uniform=0", f"--out={tmp_path / 'other'}"]
    begun = command("start", *words, cwd=photographed)
    assert begun.returncode == 0, begun.stderr


def test_photographs_that_are_not_drawn_may_be_damaged(tmp_path):
    draw_photos(tmp_path)
    drawn = drawn_photos(tmp_path)
    for photo in (tmp_path / "photos").iterdir():
        if photo.name not in drawn:
            photo.write_bytes(b"no image")
    done = command("next", tmp_path / "session", "--count=5")
    assert done.returncode == 0, done.stderr


def test_a_drawn_photograph_that_was_replaced_is_refused(tmp_path):
    draw_photos(tmp_path)
    replaced = drawn_photos(tmp_path)[0]
    Image.new("L", (12, 9), 200).save(tmp_path / "photos" / replaced)
    done = command("next", tmp_path / "session", "--count=5")
    assert done.returncode == 2
    assert f"sample '{replaced}' is another image than when the session" in done.stderr


def test_photographs_that_were_moved_are_missed(tmp_path):
    draw_photos(tmp_path)
    (tmp_path / "photos").rename(tmp_path / "moved")
    done = command("next", tmp_path / "session", "--count=5")
    assert done.returncode == 2 and "its pool cannot be read" in done.stderr


@pytest.fixture(scope="module")
def natural(tmp_path_factory):
    """A folder of 120 photos, img0.png to img119.png, with their probabilities in this order and,
    in files with ids, in another one.
    """
    folder = tmp_path_factory.mktemp("natural")
    random = np.random.default_rng(4)
    labels = random.integers(CLASSES, size=120)
    (folder / "photos").mkdir()
    for number in range(120):
        Image.new("L", (12, 9), number).save(folder / "photos" / f"img{number}.png")
    values = softmax(3 * np.eye(CLASSES)[labels] + random.normal(0, 1, (120, CLASSES)))
    names = [f"img{number}.png" for number in range(120)]
    order = np.random.default_rng(5).permutation(120)
    lines = [f"{names[i]},{','.join(map(str, values[i]))}\n" for i in order]
    np.savez(folder / "bare.npz", probabilities=values)
    np.savez(folder / "ids.npz", probabilities=values[order], samples=np.array(names)[order])
    for name, head, rows in (
        ("ids", "owl,cat,dog", lines),
        ("other", "dog,owl,cat", lines),
        ("few", "owl,cat,dog", [line for line in lines if not line.startswith("img7.")]),
        ("twice", "owl,cat,dog", [*lines, lines[0]]),
        ("words", "owl,cat,dog", [lines[0], "img1.png,1,0\n"]),
        ("ages", "old,cat,dog", lines),
    ):
        (folder / f"{name}.csv").write_text(f"sample,{head}\n" + "".join(rows))
    best = dict(zip(names, values.argmax(1).tolist(), strict=True))
    return SimpleNamespace(folder=folder, best=best)


def start_natural(natural, out, *files):
    models = [f"--model={file}" for file in files]
    return command("start", *models, "--pool=photos", f"--out={out}", cwd=natural.folder)


def test_probabilities_without_ids_are_refused_where_samples_have_two_orders(natural, tmp_path):
    bare = start_natural(natural, tmp_path / "s", "bare.npz")
    assert bare.returncode == 2
    assert "two orders: 'img10.png' or 'img2.png' may come first" in bare.stderr


@pytest.mark.parametrize("file", ["ids.npz", "ids.csv"])
def test_probabilities_belong_to_the_samples_that_their_ids_name(natural, tmp_path, file):
    done = start_natural(natural, tmp_path / "s", file)
    assert done.returncode == 0, done.stderr
    about = json.loads((tmp_path / "s" / "generation-0" / "ids.json").read_text())
    rows = np.load(tmp_path / "s" / "generation-0" / "models.npy")[0]
    assert dict(zip(about["ids"], rows.argmax(1).tolist(), strict=True)) == natural.best


def test_columns_of_several_models_are_joined_by_the_first_ones_classes(natural, tmp_path):
    done = start_natural(natural, tmp_path / "s", "ids.csv", "other.csv")
    assert done.returncode == 0, done.stderr
    settings = json.loads((tmp_path / "s" / "session.json").read_text())
    assert settings["classes"] == ["owl", "cat", "dog"]
    rows = np.load(tmp_path / "s" / "generation-0" / "models.npy")
    assert np.array_equal(rows[1], rows[0][:, [1, 2, 0]])


@pytest.mark.parametrize(
    "files,message",
    [
        (["few.csv"], "has no sample 'img7.png'; 1 of 120 samples of the pool are missing"),
        (["twice.csv"], "is there twice"),
        (["words.csv"], "words.csv, line 3: "),
        (["ids.csv", "ages.csv"], "ages.csv: the model has no class 'owl'"),
    ],
)
def test_a_table_of_other_samples_or_classes_is_refused(natural, tmp_path, files, message):
    wrong = start_natural(natural, tmp_path / "s", *files)
    assert wrong.returncode == 2 and message in wrong.stderr, wrong.stderr


def test_ids_are_joined_in_one_form(folder):
    """A Mac writes é in the names of files as two letters, a table as one."""
    pool = PoolImages(
        ["cafe\u0301.png", "th\u00e9.png"], ArrayImages(np.zeros((2, 4, 4), np.uint8))
    )
    (folder / "form.csv").write_text("sample,a,b\nthe\u0301.png,1,0\ncaf\u00e9.png,0,1\n")
    assert read_probabilities(folder / "form.csv", pool)[0].tolist() == [[0, 1], [1, 0]]


def test_rows_without_ids_are_taken_in_an_order_that_is_printed(folder):
    begun = command("start", "--model=a.npz", "--pool=pool.npz", "--out=s", cwd=folder)
    assert "note: a.npz has no ids: its rows are taken in the order 0, 1, …, 119" in begun.stdout


@pytest.fixture
def animals(tmp_path):
    """A folder of 60 images in folders named by their classes, and a function that simulates on it
    with a model whose first 6 and no other answers are wrong, of classes to be named.
    """
    for number in range(60):
        place = tmp_path / "pool" / ("cat", "dog")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.new("L", (12, 9), number).save(place / f"{number:02d}.png")
    lines = [
        f"{('cat', 'dog')[i % 2]}/{i:02d}.png,{int(i % 2 == (i > 5))},{int(i % 2 != (i > 5))}"
        for i in range(60)
    ]

    def simulate(classes):
        (tmp_path / "model.csv").write_text("\n".join([f"sample,{classes}", *lines]))
        words = ["--pool=pool", "--model=model.csv", "--labels=60", "--repetitions=2"]
        return command("simulate", *words, "--rules=uniform", "--out=study", cwd=tmp_path)

    return SimpleNamespace(study=tmp_path / "study", simulate=simulate)


def test_labels_of_a_pool_belong_to_the_classes_of_the_same_names(animals):
    """The pool's classes are sorted, those of the model are as its file names them."""
    done = animals.simulate("dog,cat")
    assert done.returncode == 0, done.stderr
    first = StudyRecord(animals.study / "study.jsonl")[{"rule": "uniform", "repetition": 0}]
    # with all labels; the first is the surrogate's
    values = np.array(first["result"]["estimates"])[1:, -1, 0]
    assert values[np.isfinite(values)] == pytest.approx(0.1, abs=1e-6)


def test_a_model_without_a_class_of_the_pool_is_refused(animals):
    done = animals.simulate("dog,bird")
    assert done.returncode == 2 and "the model has no class 'cat'" in done.stderr


NUMBERS = [str(number) for number in range(12)]


@pytest.fixture
def numbered(tmp_path):
    """A pool of an image for each class, in folders that sort as 0, 1, 10, 11, 2, …"""
    for name in NUMBERS:
        (tmp_path / "pool" / name).mkdir(parents=True)
        Image.new("L", (9, 9), int(name)).save(tmp_path / "pool" / name / "0.png")
    return tmp_path / "pool"


@pytest.mark.parametrize("wanted", [NUMBERS, ()])
def test_columns_called_by_numbers_are_sorted_by_these(wanted):
    down = TestedModel("down.csv", np.eye(12)[:, ::-1], NUMBERS[::-1])
    assert np.array_equal(reorder_classes(wanted, down).predictions, np.eye(12))


def test_columns_without_names_are_counted_from_0():
    bare = TestedModel("bare.npz", np.eye(12))
    assert np.array_equal(reorder_classes(NUMBERS[::-1], bare).predictions[0], np.eye(12)[11])


def test_the_order_in_which_columns_without_names_are_taken_is_said():
    bare = TestedModel("bare.npz", np.eye(12))
    animals = [f"animal {name}" for name in NUMBERS]
    assert "order animal 0, animal 1" in reorder_classes(animals, bare).remark


def labels_for(place, classes):
    """The labels of a pool for a model of these classes."""
    model = TestedModel("m", np.eye(12), classes)
    subject = Subject(load_pool(str(place)), [model], SurrogateData(np.eye(12)), "tested_model")
    return pool_labels(subject).tolist()


def test_labels_called_by_numbers_are_these(numbered):
    samples = load_pool(str(numbered)).ids
    assert labels_for(numbered, NUMBERS) == [int(sample.split("/")[0]) for sample in samples]


def test_labels_called_by_numbers_are_refused_where_the_model_does_not_name_its_classes(numbered):
    with pytest.raises(BadInput, match="those of the pool have two orders: '10' or '2' may come"):
        labels_for(numbered, ())


def test_a_session_of_classes_called_by_numbers_begins_when_these_are_given(numbered):
    ids = np.array([f"{name}/0.png" for name in NUMBERS])
    np.savez(numbered.parent / "twelve.npz", probabilities=np.eye(12), samples=ids)
    words = ["start", "--model=twelve.npz", "--pool=pool", "--out=s"]
    done = command(*words, cwd=numbered.parent)
    assert done.returncode == 2 and "Name the model's classes with --classes" in done.stderr
    given = f"--classes={','.join(NUMBERS)}"
    assert command(*words, given, cwd=numbered.parent).returncode == 0


SIMULATE = ["--model=a.npz", "--pool=pool.npz", "--labels=30", "--rules=expected_loss,uniform"]


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """A folder with a study that went on from 2 repetitions to 4, and its record before."""
    folder = tmp_path_factory.mktemp("simulated")
    write_material(folder)
    few = command("simulate", *SIMULATE, "--repetitions=2", "--out=study", cwd=folder)
    assert few.returncode == 0, few.stderr
    before = (folder / "study" / "study.jsonl").read_bytes()
    words = ["--repetitions=4", "--executor=threads", "--workers=2", "--out=study"]
    more = command("simulate", *SIMULATE, *words, cwd=folder)
    assert more.returncode == 0, more.stderr
    return SimpleNamespace(folder=folder, study=folder / "study", before=before, said=more.stdout)


def test_simulations_continue(simulated):
    record = simulated.study / "study.jsonl"
    assert len(StudyRecord(record)) == 2 * 4
    assert record.read_bytes().startswith(simulated.before)


def test_simulations_end_with_a_table_and_a_page(simulated):
    assert "monte_carlo" in simulated.said
    assert (simulated.study / "report.html").exists()


def test_trials_of_an_earlier_version_are_read_where_it_had_them(simulated, tmp_path):
    study = shutil.copytree(simulated.study, tmp_path / "study")
    for cell, result in StudyRecord(study / "study.jsonl").items():
        tree = {name: np.array(values) for name, values in result["result"].items()}
        trial = study / "trials" / cell["rule"] / f"trial-{cell['repetition']:03d}"
        checkpoint.write(trial, {"result": tree}, {"flops": result["flops"]})
    (study / "study.jsonl").unlink()
    (study / "ratios.csv").unlink()
    words = ["--repetitions=4", f"--out={study}"]
    done = command("simulate", *SIMULATE, *words, cwd=simulated.folder)
    assert done.returncode == 0, done.stderr
    assert not (study / "study.jsonl").exists()
    assert (study / "ratios.csv").read_bytes() == (simulated.study / "ratios.csv").read_bytes()


def test_a_model_without_a_loss_is_not_simulated(folder):
    right = np.eye(CLASSES)[np.load(folder / "pool.npz")["labels"]]
    np.savez(folder / "a.npz", probabilities=right)
    faultless = command("simulate", *SIMULATE, "--repetitions=2", "--out=study", cwd=folder)
    assert faultless.returncode == 2 and "its loss is 0 on every sample" in faultless.stderr


def test_a_session_is_not_begun_in_the_folder_of_a_study(simulated):
    words = ["--model=a.npz", "--pool=pool.npz", "--out=study"]
    shared = command("start", *words, cwd=simulated.folder)
    assert shared.returncode == 2 and "contains what simulate made (study.json)" in shared.stderr


@pytest.mark.parametrize("flag", ["--loss=cross_entropy", "--uniform=0.1"])
def test_simulations_do_not_continue_with_other_settings(simulated, flag):
    words = ["--repetitions=2", "--out=study", flag]
    other = command("simulate", *SIMULATE, *words, cwd=simulated.folder)
    assert other.returncode == 2 and "contains another study" in other.stderr


@pytest.fixture(scope="module")
def of_a_checkpoint(small_stream, tmp_path_factory):
    """A session of a checkpoint with a folder of images, and what was said at its beginning."""
    folder = tmp_path_factory.mktemp("checkpoint")
    done = forked.run(
        "launch.run",
        "--config=logistic_regression",
        f"--config.stream={small_stream}",
        f"--run_dir={folder / 'run'}",
    )
    assert done.returncode == 0, done.stderr
    random = np.random.default_rng(1)
    (folder / "photos" / "may").mkdir(parents=True)
    for number in range(24):
        grey = random.integers(0, 90, (9, 11)) + 50 * (number % 3)
        place = folder / "photos" / ("may" if number % 2 else ".") / f"{number}.png"
        Image.fromarray(grey.astype(np.uint8)).save(place)
    first = sorted((folder / "run" / "checkpoints").iterdir())[0]
    begun = command(
        "start",
        f"--model={first}",
        f"--pool={folder / 'photos'}",
        f"--out={folder / 'session'}",
        f"--stream={small_stream}",
    )
    assert begun.returncode == 0, begun.stderr
    return SimpleNamespace(session=folder / "session", begun=begun)


def test_a_checkpoint_is_tested_on_a_folder_of_images(of_a_checkpoint):
    said = of_a_checkpoint.begun.stdout
    assert "24 samples, 3 classes, 1 model," in said and "surrogate heads" in said


def test_images_of_all_its_folders_are_drawn_for_a_checkpoint(of_a_checkpoint, tmp_path):
    for name in ("photos", "session"):
        shutil.copytree(of_a_checkpoint.session.parent / name, tmp_path / name)
    session = tmp_path / "session"
    chosen = command("next", session, "--count=6")
    assert chosen.returncode == 0, chosen.stderr
    draws = json.loads((session / "draws.jsonl").read_text())["draws"]
    assert len(draws[0]["samples"]) == 6
    text = (session / "rounds" / "001" / "to_label.csv").read_text()
    assert "may/" in text and ".png" in text


@pytest.mark.parametrize(
    "words,message",
    [
        (["start", "--model=a.npz"], "start needs --pool"),
        (["start", "--pool=pool.npz", "--out=s"], "error: --model"),
        (["start", "--model=a.npz", "--pool=nothing", "--out=s"], "no such folder or file"),
        (["start", "--model=pool.npz", "--pool=pool.npz", "--out=s"], "'probabilities'"),
        (["start", "--model=elsewhere", "--pool=pool.npz", "--out=s"], "neither a checkpoint"),
        (["start", "--model=a.npz", "--pool=pool.npz:x", "--out=s"], "has no 'images_x'"),
        (
            ["start", "--model=a.npz", "--pool=pool.npz", "--out=s", "--surrogate=heds"],
            "'heads'",
        ),
        (
            ["start", "--model=a.npz", "--pool=pool.npz", "--out=s", "--surrogate=ensemble"],
            "the surrogate 'ensemble' needs other models of the run",
        ),
        (
            ["start", "--model=a.npz", "--pool=pool.npz", "--out=s", "--classes=x,y"],
            "--classes: 2 names; the model has 3 classes",
        ),
        (
            ["start", "--model=a.npz", "--pool=pool.npz", "--out=s", "--classes=x,y,x"],
            "--classes: 'x' is given twice",
        ),
        (
            ["start", "--model=a.npz", "--pool=pool.npz", "--out=s", "--classes=x,,y"],
            "--classes=x,,y: a name is empty",
        ),
        (
            ["start", "--model=a.npz", "--pool=pool.npz", "--out=s", "--classes=x,y,?"],
            "--classes: a class is '?', which stands for something else",
        ),
        (["next", "nowhere"], "there is no labelling session here"),
        (["status", "nowhere"], "there is no labelling session here"),
        (["record", "a.csv", "--session=nowhere"], "there is no labelling session here"),
        (
            ["simulate", "--model=a.npz", "--pool=unlabelled.npz", "--out=study"],
            "has no labels. simulate needs them",
        ),
        (
            ["simulate", "--model=a.npz", "--pool=pool.npz", "--out=study", "--rules=xwet!"],
            "'xwet'",
        ),
        (
            ["simulate", "--model=a.npz", "--pool=pool.npz", "--out=study", "--rules="],
            "--rules=: no rule is given",
        ),
        (
            ["simulate", "--model=a.npz", "--pool=pool.npz", "--out=s", "--rules=bald,xwed,bald"],
            "--rules: bald is given twice",
        ),
        (
            ["simulate", "--model=a.npz", "--pool=nothing", "--out=s", "--executor=rai"],
            "'rai'",
        ),
        (["start", "--model=a.npz", "--pool=a.npz", "--out=s"], "Its arrays: probabilities."),
        (
            ["start", "--model=a.npz", "--pool=pool.npz", "--out=b.npz"],
            "--out=b.npz: is a file",
        ),
    ],
)
def test_mistakes_are_explained(folder, words, message):
    done = command(*words, cwd=folder)
    assert done.returncode == 2 and message in done.stderr
    assert "Traceback" not in done.stderr
