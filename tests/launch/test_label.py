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
from nevis_stream.datasets.images import ArrayImages
from nevis_stream.errors import BadInput
from nevis_stream.experiments.labelling.models import TestedModel
from nevis_stream.launch.label_commands.surrogate_data import Subject, pool_labels, reorder_classes
from nevis_stream.storage import checkpoint
from nevis_stream.storage.study_record import StudyRecord
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
    """A copy of the session, to be changed."""
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


def test_continuing_with_other_settings_is_refused(folder):
    words = [f"--model={folder / 'a.npz'}", f"--out={folder / 'session'}", "--classes=a,b,c"]
    assert command("start", *words, f"--pool={folder / 'pool.npz'}").returncode == 0
    with np.load(folder / "pool.npz") as arrays:
        np.savez(folder / "more.npz", images_more=arrays["images"])
    words += ["--continue", f"--pool={folder / 'more.npz'}:more"]
    for flag, used in {
        "--loss=cross_entropy": "zero_one",
        "--rule=bald": "rms_loss",
        "--uniform=0.3": "0.5",
        "--seed=3": "0",
        "--surrogate=heads": "tested_model",
        "--classes=a,c,b": "a,b,c",
    }.items():
        other = command("start", *words, flag)
        assert other.returncode == 2, other.stdout
        assert f"{flag}: the session was begun with {used}, and" in other.stderr
    grown = command("start", *words, "--uniform=0.5", "--seed=0")
    assert grown.returncode == 0, grown.stderr
    assert "120 samples added, 240 now" in grown.stdout
    assert "if that is wrong, delete" in grown.stdout
    shutil.rmtree(folder / "session" / "generation-1")  # as it says
    again = command("start", *words)
    assert again.returncode == 0 and "120 samples added, 240 now" in again.stdout, again.stderr
    shutil.rmtree(folder / "session" / "generation-1")
    values = np.load(folder / "a.npz")["probabilities"]
    np.savez(folder / "other.npz", probabilities=values[:, ::-1], classes=["c", "b", "a"])
    grown = command("start", f"--model={folder / 'other.npz'}", *words[1:])
    assert grown.returncode == 0, grown.stderr
    session = Session(folder / "session")
    new = session.pool_parts[1]
    assert np.array_equal(new.data.predictions, values)  # what the surrogate starts from
    assert np.array_equal(new.predictions[0], values)


def test_a_folder_of_photographs_is_found_from_everywhere(folder):
    """`next` reads the chosen files alone: one that is not chosen may be damaged since."""
    (folder / "photos").mkdir()
    for number in range(120):
        Image.new("L", (12, 9), number).save(folder / "photos" / f"{number:03d}.png")
    words = ["--model=a.npz", "--pool=photos", "--out=session"]
    assert command("start", *words, cwd=folder).returncode == 0
    assert command("start", *words, "--uniform=0", "--out=other", cwd=folder).returncode == 0
    (folder / "elsewhere").mkdir()
    session, elsewhere = folder / "session", {"cwd": folder / "elsewhere"}
    done = command("next", session, "--count=5", **elsewhere)
    assert done.returncode == 0, done.stderr
    same = ["--model=../a.npz", "--pool=../photos", "--out=../session"]
    begun = command("start", *same, **elsewhere)
    assert begun.returncode == 0, begun.stderr
    assert "│ a.npz " in command("status", "session", cwd=folder).stdout
    drawn = json.loads((session / "draws.jsonl").read_text())["draws"][0]["samples"]
    ids = json.loads((session / "generation-0" / "ids.json").read_text())["ids"]
    for place, name in enumerate(ids):
        if place not in drawn:
            (folder / "photos" / name).write_bytes(b"no image")
    assert command("next", session, "--count=5").returncode == 0
    replaced = folder / "photos" / ids[drawn[0]]
    Image.new("L", (12, 9), 200).save(replaced)
    done = command("next", session, "--count=5")
    assert done.returncode == 2
    assert f"sample '{replaced.name}' is another image than when the session" in done.stderr
    (folder / "photos").rename(folder / "moved")
    done = command("next", session, "--count=5")
    assert done.returncode == 2 and "its pool cannot be read" in done.stderr


def natural_photos(folder):
    """Names of 120 photos, img0.png to img119.png, their labels, and probabilities, in order."""
    random = np.random.default_rng(4)
    labels = random.integers(CLASSES, size=120)
    (folder / "photos").mkdir()
    for number in range(120):
        Image.new("L", (12, 9), number).save(folder / "photos" / f"img{number}.png")
    logits = 3 * np.eye(CLASSES)[labels] + random.normal(0, 1, (120, CLASSES))
    names = [f"img{number}.png" for number in range(120)]
    return names, labels, softmax(logits)


def predicted(session):
    """The most probable class of each sample, by id."""
    about = json.loads((session / "generation-0" / "ids.json").read_text())
    rows = np.load(session / "generation-0" / "models.npy")[0]
    return dict(zip(about["ids"], rows.argmax(1).tolist(), strict=True))


def test_probabilities_belong_to_the_samples_that_their_ids_name(folder):
    names, _, values = natural_photos(folder)
    right = dict(zip(names, values.argmax(1).tolist(), strict=True))
    np.savez(folder / "bare.npz", probabilities=values)
    bare = command("start", "--model=bare.npz", "--pool=photos", "--out=s", cwd=folder)
    assert bare.returncode == 2
    assert "two orders: 'img10.png' or 'img2.png' may come first" in bare.stderr
    order = np.random.default_rng(5).permutation(120)
    np.savez(folder / "ids.npz", probabilities=values[order], samples=np.array(names)[order])
    lines = [f"{names[i]},{','.join(map(str, values[i]))}\n" for i in order]
    (folder / "ids.csv").write_text("sample,owl,cat,dog\n" + "".join(lines))
    for file in ("ids.npz", "ids.csv"):
        done = command("start", f"--model={file}", "--pool=photos", f"--out={file}.s", cwd=folder)
        assert done.returncode == 0, done.stderr
        assert predicted(folder / f"{file}.s") == right
    settings = json.loads((folder / "ids.csv.s" / "session.json").read_text())
    assert settings["classes"] == ["owl", "cat", "dog"]
    (folder / "other.csv").write_text("sample,dog,owl,cat\n" + "".join(lines))
    both = ["--model=ids.csv", "--model=other.csv"]
    assert command("start", *both, "--pool=photos", "--out=two", cwd=folder).returncode == 0
    rows = np.load(folder / "two" / "generation-0" / "models.npy")
    assert np.array_equal(rows[1], rows[0][:, [1, 2, 0]])
    few = [line for line in lines if not line.startswith("img7.")]
    (folder / "few.csv").write_text("sample,owl,cat,dog\n" + "".join(few))
    (folder / "twice.csv").write_text("sample,owl,cat,dog\n" + "".join([*lines, lines[0]]))
    (folder / "words.csv").write_text("sample,owl,cat,dog\n" + lines[0] + "img1.png,1,0\n")
    (folder / "ages.csv").write_text("sample,old,cat,dog\n" + "".join(lines))
    for words, message in {
        ("few.csv",): "has no sample 'img7.png'; 1 of 120 samples of the pool are missing",
        ("twice.csv",): "is there twice",
        ("words.csv",): "words.csv, line 3: ",
        ("ids.csv", "ages.csv"): "ages.csv: the model has no class 'owl'",
    }.items():
        models = [f"--model={word}" for word in words]
        wrong = command("start", *models, "--pool=photos", "--out=s", cwd=folder)
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


def test_labels_of_a_pool_belong_to_the_classes_of_the_same_names(folder):
    """The pool's classes are sorted, those of the model are as its file names them."""
    for number in range(60):
        place = folder / "pool" / ("cat", "dog")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.new("L", (12, 9), number).save(place / f"{number:02d}.png")
    lines = [
        f"{('cat', 'dog')[i % 2]}/{i:02d}.png,{int(i % 2 == (i > 5))},{int(i % 2 != (i > 5))}"
        for i in range(60)
    ]
    for name, head in (("right", "sample,dog,cat"), ("wrong", "sample,dog,bird")):
        (folder / f"{name}.csv").write_text("\n".join([head, *lines]))
    words = ["simulate", "--pool=pool", "--labels=60", "--repetitions=2", "--rules=uniform"]
    done = command(*words, "--model=right.csv", "--out=right", cwd=folder)
    assert done.returncode == 0, done.stderr
    first = StudyRecord(folder / "right" / "study.jsonl")[{"rule": "uniform", "repetition": 0}]
    # with all labels; the first is the surrogate's
    values = np.array(first["result"]["estimates"])[1:, -1, 0]
    assert values[np.isfinite(values)] == pytest.approx(0.1, abs=1e-6)
    done = command(*words, "--model=wrong.csv", "--out=wrong", cwd=folder)
    assert done.returncode == 2 and "the model has no class 'cat'" in done.stderr


def test_classes_called_by_numbers_are_joined_by_these(folder):
    """Folders sort as 0, 1, 10, 11, 2, …, and a file may have its columns in any order."""
    names = [str(number) for number in range(12)]
    values = np.eye(12)
    down = TestedModel("down.csv", values[:, ::-1], names[::-1])
    for wanted in (names, ()):
        assert np.array_equal(reorder_classes(wanted, down).predictions, values)
    assert np.array_equal(
        reorder_classes(names[::-1], TestedModel("bare.npz", values)).predictions[0], values[11]
    )
    animals = [f"animal {name}" for name in names]
    assert (
        "order animal 0, animal 1"
        in reorder_classes(animals, TestedModel("bare.npz", values)).remark
    )
    place = folder / "pool"
    for name in names:
        (place / name).mkdir(parents=True)
        Image.new("L", (9, 9), int(name)).save(place / name / "0.png")
    pool = load_pool(str(place))

    def labels(classes):
        model = TestedModel("m", values, classes)
        return pool_labels(Subject(pool, [model], SurrogateData(values), "tested_model")).tolist()

    assert labels(names) == [int(sample.split("/")[0]) for sample in pool.ids]
    with pytest.raises(BadInput, match="those of the pool have two orders: '10' or '2' may come"):
        labels(())
    ids = np.array([f"{name}/0.png" for name in names])
    np.savez(folder / "twelve.npz", probabilities=values, samples=ids)
    words = ["start", "--model=twelve.npz", "--pool=pool", "--out=s"]
    done = command(*words, cwd=folder)
    assert done.returncode == 2 and "Name the model's classes with --classes" in done.stderr
    assert command(*words, f"--classes={','.join(names)}", cwd=folder).returncode == 0


def test_simulations_continue(folder):
    words = ["simulate", f"--model={folder / 'a.npz'}", f"--pool={folder / 'pool.npz'}"]
    words += ["--labels=30", f"--out={folder / 'study'}", "--rules=expected_loss,uniform"]
    few = command(*words, "--repetitions=2")
    assert few.returncode == 0, few.stderr
    record = folder / "study" / "study.jsonl"
    before = record.read_bytes()
    more = command(*words, "--repetitions=4", "--executor=threads", "--workers=2")
    assert more.returncode == 0, more.stderr
    assert "monte_carlo" in more.stdout and len(StudyRecord(record)) == 2 * 4
    assert record.read_bytes().startswith(before)
    assert (folder / "study" / "report.html").exists()
    table = (folder / "study" / "ratios.csv").read_bytes()
    kept = StudyRecord(record)
    for cell, result in kept.items():  # where an earlier version had them
        tree = {name: np.array(values) for name, values in result["result"].items()}
        trial = folder / "study" / "trials" / cell["rule"] / f"trial-{cell['repetition']:03d}"
        checkpoint.write(trial, {"result": tree}, {"flops": result["flops"]})
    record.unlink()
    assert command(*words, "--repetitions=4").returncode == 0 and not record.exists()
    assert (folder / "study" / "ratios.csv").read_bytes() == table
    right = np.eye(CLASSES)[np.load(folder / "pool.npz")["labels"]]
    np.savez(folder / "right.npz", probabilities=right)
    words[1] = f"--model={folder / 'right.npz'}"
    faultless = command(*words, "--repetitions=2", f"--out={folder / 'faultless'}")
    assert faultless.returncode == 2 and "its loss is 0 on every sample" in faultless.stderr
    words[1] = f"--model={folder / 'a.npz'}"
    shared = command("start", *words[1:3], f"--out={folder / 'study'}")
    assert shared.returncode == 2 and "contains what simulate made (study.json)" in shared.stderr
    for flag in ("--loss=cross_entropy", "--uniform=0.1"):
        other = command(*words, "--repetitions=2", flag)
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
    session = shutil.copytree(of_a_checkpoint.session, tmp_path / "session")
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
