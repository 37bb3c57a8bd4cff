"""The protocol all_seen: a shared model is asked again for earlier tasks, and the records of the
standard protocol are the same as without it.
"""

import json
import shutil
from dataclasses import dataclass

import numpy as np
import pytest

from nevis_stream.analysis.forgetting import measure_forgetting
from nevis_stream.analysis.points import point
from nevis_stream.errors import BadInput, LearnerFault
from nevis_stream.learner import Predictor
from nevis_stream.learners.shared_network import SharedNetwork
from nevis_stream.progress import Silent
from nevis_stream.report.build import write_report
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import PredictRecord, RecallRecord, TrainRecord
from nevis_stream.runner import run
from nevis_stream.streams.named_streams import load_stream
from nevis_stream.streams.stream import Stream
from tests import toy

QUIET = {"progress": Silent(), "tensorboard": False}
SMALL = {"steps": 60, "width": 4, "resolution": 8, "batch": 16}


@dataclass(frozen=True)
class LastFrequencies:
    """Answers each task with the class frequencies of the last one: forgets all of it."""

    def init(self, ctx):
        return {}

    def train(self, task, state, ctx):
        ctx.charge(1)
        counts = np.bincount(task.train.labels, minlength=task.num_classes)
        after = {"p": counts / counts.sum(), "last": task.task_id}
        return after, [Predictor({"p": after["p"]})]

    def predictor_for(self, task, state, ctx):
        assert len(task.train) == len(task.dev) == 0, "only facts of an earlier task"
        assert task.task_id != state["last"]
        ctx.charge(1000)
        p = np.zeros(task.num_classes)
        known = min(len(p), len(state["p"]))
        p[:known] = state["p"][:known]
        return Predictor({"p": p / p.sum()})

    def predict(self, predictor, images, ctx):
        ctx.charge(1)
        return np.tile(predictor["p"], (len(images), 1))


def bright(common):
    """A task of three classes, of which one is that of most images."""
    labels = np.where(np.arange(60) % 4 < 2, common, np.arange(60) % 3)
    noise = np.random.RandomState(common).randint(0, 60, (60, 4, 4))
    return (noise + labels[:, None, None] * 80).astype(np.uint8), labels


def stream():
    tasks = {name: bright(common) for common, name in enumerate("abc")}
    return Stream.from_arrays("three", tasks, [1990, 2000, 2010], meta_test=1)


def test_the_matrix_has_every_task_after_each_later_one(tmp_path):
    ledger = run(LastFrequencies(), stream(), tmp_path / "all", protocol="all_seen", **QUIET)
    assert [record.key for record in ledger.of_kind(RecallRecord)] == [
        ("a", "test", "b"),
        ("a", "test", "c"),
        ("b", "test", "c"),
    ]
    matrix = ledger.accuracy_matrix()
    assert matrix.isna().to_numpy().sum() == 3  # above the diagonal
    test = {task.task_id: stream().splits(task)["test"].labels for task in stream().tasks}
    train = {task.task_id: stream().splits(task)["train"].labels for task in stream().tasks}
    for after in "abc":
        answer = np.bincount(train[after]).argmax()
        for task in "abc"[: "abc".index(after) + 1]:
            assert matrix.loc[after, task] == pytest.approx(np.mean(test[task] == answer))
    measured, r = measure_forgetting(ledger), matrix.to_numpy()
    assert measured.final == pytest.approx(r[2].mean())
    assert measured.backward_transfer == pytest.approx(
        np.mean([r[2, 0] - r[0, 0], r[2, 1] - r[1, 1]])
    )
    assert measured.forgetting == pytest.approx(
        np.mean([max(r[:2, 0]) - r[2, 0], r[1, 1] - r[2, 1]])
    )


def test_the_standard_records_and_the_cost_are_those_of_the_standard_protocol(tmp_path):
    seen = run(LastFrequencies(), stream(), tmp_path / "all", protocol="all_seen", **QUIET)
    plain = run(LastFrequencies(), stream(), tmp_path / "plain", **QUIET)

    def facts(ledger):
        kinds = ledger.of_kind(TrainRecord), ledger.of_kind(PredictRecord)
        return [
            {k: v for k, v in vars(record).items() if k in ("task_id", "error", "n", "flops")}
            for records in kinds
            for record in records
        ]

    assert facts(seen) == facts(plain)
    assert point(seen) == point(plain)
    assert measure_forgetting(plain) is None
    assert sum(r.flops["predict"]["-"] for r in seen.of_kind(RecallRecord)) == 3 * 1001


def test_a_kill_between_two_predictions_changes_nothing(tmp_path):
    whole = run(LastFrequencies(), stream(), tmp_path / "whole", protocol="all_seen", **QUIET)
    lines = whole.path.read_bytes().splitlines(keepends=True)
    for kept in range(1, len(lines)):
        cut = tmp_path / f"cut-{kept}"
        shutil.copytree(tmp_path / "whole", cut)
        (cut / "ledger.jsonl").write_bytes(b"".join(lines[:kept]) + lines[kept][:9])
        again = run(LastFrequencies(), stream(), cut, protocol="all_seen", **QUIET)
        assert again.path.read_bytes() == whole.path.read_bytes(), f"line {kept}"


def test_who_cannot_be_asked_again_is_refused(tmp_path):
    with pytest.raises(LearnerFault, match="ToyLearner: it has no predictor_for"):
        run(toy.ToyLearner(), toy.stream(), tmp_path / "a", protocol="all_seen", **QUIET)
    assert not (tmp_path / "a").exists()
    with pytest.raises(BadInput, match="needs a fixed order of tasks"):
        load_stream("adaptive:pico_digits,rule=uniform_mixture").check("all_seen")

    class Wrong(LastFrequencies):
        def predictor_for(self, task, state, ctx):
            return state

    with pytest.raises(LearnerFault, match="task 'a': predictor_for must return a Predictor"):
        run(Wrong(), stream(), tmp_path / "b", protocol="all_seen", **QUIET)


def test_an_impossible_recall_is_named(tmp_path):
    ledger = run(LastFrequencies(), stream(), tmp_path, protocol="all_seen", **QUIET)
    lines = ledger.path.read_text().splitlines()
    place = next(i for i, line in enumerate(lines) if '"recall"' in line)
    twice = json.loads(lines[place]) | {"event": place}
    ledger.path.write_text("\n".join([*lines[: place + 1], json.dumps(twice)]) + "\n")
    with pytest.raises(BadInput, match="'a', test is predicted twice"):
        Ledger(tmp_path)


def write_csv(folder):
    rows = ["order,year,task_id,dataset_id,meta_split,path"]
    for place, name in enumerate("abc", start=1):
        images, labels = bright(place - 1)
        np.savez(folder / f"{name}.npz", images=images, labels=labels)
        split = "test" if name == "c" else "train"
        rows.append(f"{place},{1990 + place},{name},{name},{split},{name}.npz")
    rows.append("4,2020,again,a,test,a.npz")
    (folder / "mine.csv").write_text("\n".join(rows) + "\n")
    return str(folder / "mine.csv")


def test_a_single_head_has_the_classes_of_all_tasks_so_far(tmp_path):
    plain = load_stream(write_csv(tmp_path))
    shared = load_stream(f"{write_csv(tmp_path)}+single_head")
    assert [task.num_classes for task in shared.tasks] == [3, 6, 9, 9]
    for before, task, first in zip(plain.tasks, shared.tasks, (0, 3, 6, 0), strict=True):
        for split in ("train", "test"):
            there, here = plain.splits(before)[split], shared.splits(task)[split]
            assert (here.labels == there.labels + first).all() and here.ids == there.ids
    assert shared.name == "mine+single_head" and shared.digest != plain.digest
    ledger = run(
        SharedNetwork("replay", **SMALL), shared, tmp_path / "run", protocol="all_seen", **QUIET
    )
    assert ledger.complete and len(ledger.of_kind(RecallRecord)) == 6
    with pytest.raises(BadInput, match="with .single_head all tasks are single_label"):
        load_stream("pico+single_head")


@pytest.fixture(scope="module")
def forgetters(tmp_path_factory):
    """Runs of the three examples; the first two tasks contradict each other with a single head of
    the same columns, and so does training on one of them.
    """
    root = tmp_path_factory.mktemp("shared")
    stream = load_stream(f"{write_csv(root)}+single_head")
    for method in ("finetune", "replay", "ewc"):
        learner = SharedNetwork(method, **SMALL)
        run(learner, stream, root / method, protocol="all_seen", **QUIET)
    return root


def test_replay_forgets_less_than_fine_tuning(forgetters):
    """The same digits of brightness have other classes in each task."""
    measured = {
        m: measure_forgetting(Ledger(forgetters / m)) for m in ("finetune", "replay", "ewc")
    }
    assert measured["finetune"].forgetting > 0.2
    assert measured["replay"].forgetting < measured["finetune"].forgetting


def test_the_report_has_the_matrix(forgetters, tmp_path):
    runs = [forgetters / method for method in ("finetune", "replay")]
    write_report(runs, out=tmp_path / "report")
    page = (tmp_path / "report" / "report.html").read_text()
    assert "Forgetting: earlier tasks, predicted again" in page
    tables = list((tmp_path / "report").rglob("*accuracy_matrix*.csv"))
    assert len(tables) == 1 and len(tables[0].read_text().splitlines()) == 1 + 2 * 10
