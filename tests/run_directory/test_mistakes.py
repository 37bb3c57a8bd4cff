"""The worst mistakes: ranked correctly, written next to the thumbnails, the same after a kill
(tests/test_kill.py compares them).
"""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from nevis_stream.analysis.runs import read_runs
from nevis_stream.datasets.dataset import Samples
from nevis_stream.report import run_files
from nevis_stream.run_directory.outcomes import Mistake, find_worst, read_mistakes, write_mistakes
from nevis_stream.run_directory.records import PredictRecord
from nevis_stream.runner import run
from nevis_stream.streams.stream import Stream
from tests import toy


def samples_of(labels):
    """Samples with these labels and ids from 0; `find_worst` looks at no image."""
    return Samples(None, np.asarray(labels), [str(i) for i in range(len(labels))])


def test_the_most_confidently_wrong_come_first():
    probabilities = np.asarray(
        [[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.05, 0.95], [0.1, 0.9]], np.float32
    )
    ranked, wrong = find_worst(samples_of([1, 1, 1, 0, 1]), "single_label", probabilities)
    assert wrong == 3
    assert [i for i, _ in ranked] == [3, 0, 2]
    assert ranked[0][1] == Mistake(
        sample_id="3", true=0, predicted=1, confidence=0.05, predicted_confidence=0.95
    )


def test_a_multi_label_sample_is_described_by_its_worst_label():
    labels = np.asarray([[1, 0, 1], [0, 0, 1], [1, 1, 1]], np.uint8)
    probabilities = np.asarray([[0.4, 0.8, 0.9], [0.1, 0.2, 0.9], [0.3, 0.9, 0.1]], np.float32)
    ranked, wrong = find_worst(samples_of(labels), "multi_label", probabilities)
    assert wrong == 2
    assert [(i, m.label, m.true, m.predicted) for i, m in ranked] == [
        (2, 2, 1, 0),
        (0, 1, 0, 1),
    ]
    assert ranked[1][1].confidence == pytest.approx(0.2)
    assert ranked[1][1].predicted_confidence == pytest.approx(0.8)


@given(st.integers(0, 10_000), st.integers(1, 60), st.integers(2, 5))
def test_no_wrong_sample_that_is_left_out_is_worse(seed, n, classes):
    random = np.random.RandomState(seed)
    labels = random.randint(classes, size=n)
    probabilities = (random.randint(1, 4, size=(n, classes)) / 4).astype(np.float32)  # many ties
    ranked, wrong = find_worst(samples_of(labels), "single_label", probabilities)
    answers, given_to_true = probabilities.argmax(1), probabilities[np.arange(n), labels]
    everything = sorted((given_to_true[i], i) for i in range(n) if answers[i] != labels[i])
    assert wrong == len(everything)
    assert [i for i, _ in ranked] == [i for _, i in everything[:12]]


def test_a_run_leaves_its_mistakes(tmp_path):
    named = replace(toy.blobs("alpha", seed=1), class_names=("dark", "grey", "bright"))
    stream = Stream.from_datasets("named", [named, toy.striped("gamma")], [1992, 2005], meta_test=1)
    ledger = run(toy.ToyLearner(), stream, tmp_path)
    for record in ledger.of_kind(PredictRecord):
        saved = json.loads(
            (tmp_path / "thumbnails" / f"{record.task_id}-mistakes.json").read_text()
        )
        with np.load(tmp_path / record.outcomes) as outcomes:
            correct, ids = outcomes["correct"], outcomes["sample_id"].tolist()
            rows = correct.reshape(len(ids), -1).min(axis=1)
            assert (saved["n"], saved["wrong"]) == (len(ids), int((rows == 0).sum()))
            assert saved["predictor_id"] == record.predictor_id and saved["split"] == record.split
            assert 0 < len(saved["mistakes"]) == min(12, saved["wrong"])
            for mistake in saved["mistakes"]:
                place = ids.index(mistake["sample_id"])
                where = (place, mistake["label"]) if "label" in mistake else place
                assert correct[where] == 0
                assert outcomes["confidence"][where] == pytest.approx(
                    mistake["confidence"], abs=1e-6
                )
        file = tmp_path / "thumbnails" / f"{record.task_id}-mistakes.json"
        assert read_mistakes(file).to_json() == saved
        image = Image.open(tmp_path / "thumbnails" / f"{record.task_id}-mistakes.png")
        assert image.size == (50 * len(saved["mistakes"]) - 2, 48)
    first = json.loads((tmp_path / "thumbnails" / "alpha-mistakes.json").read_text())["mistakes"][0]
    assert first["true_name"] == named.class_names[first["true"]]
    assert first["predicted_name"] == named.class_names[first["predicted"]]


def test_tasks_that_differ_in_case_have_files_of_their_own(tmp_path):
    shown = [toy.blobs("Pets", seed=1), toy.striped("pets"), toy.blobs("PETS", classes=4, seed=3)]
    ledger = run(
        toy.ToyLearner(), Stream.from_datasets("case", shown, [1992, 1993, 1994], 3), tmp_path
    )
    names = [path.name for path in (tmp_path / "thumbnails").iterdir()]
    assert len(names) == 9 == len({name.lower() for name in names}) and "Pets.png" in names
    (result,), _ = read_runs([tmp_path])
    for record in ledger.of_kind(PredictRecord):
        assert run_files.find_thumbnail(record.task_id, [result])
        mistakes = run_files.read_mistakes(result, record.task_id, 12)
        assert {each.sample_id.partition("/")[0] for each in mistakes.all} == {record.task_id}
    assert run_files.find_thumbnail("../thumbnails/Pets", [result]) is None


def test_no_mistake_no_image(tmp_path):
    samples = toy.stream().splits(toy.stream().tasks[0])["test"]
    right = np.eye(3, dtype=np.float32)[samples.labels]
    write_mistakes(tmp_path / "alpha", "alpha", "test", "0" * 16, samples, "single_label", right)
    assert [path.name for path in tmp_path.iterdir()] == ["alpha-mistakes.json"]
    assert json.loads((tmp_path / "alpha-mistakes.json").read_text())["mistakes"] == []
