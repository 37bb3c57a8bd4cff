"""Mistakes in the page: whose, how many, and in words; damaged files show nothing."""

import base64
import io
import json

import pytest
from PIL import Image

from nevis_stream.analysis.runs import read_runs
from nevis_stream.report.build import write_report
from nevis_stream.report.parts import samples
from nevis_stream.report.run_files import read_mistakes
from nevis_stream.report.section import Section
from nevis_stream.runner import run
from tests import toy
from tests.report.page_reader import Page
from tests.report.synthetic import SyntheticRun

pytestmark = pytest.mark.usefixtures("undrawn")
RUN = SyntheticRun(learner="Indep", mistakes=True)


def written(tmp_path, *runs):
    return [run.write(tmp_path / str(i)) for i, run in enumerate(runs)]


def shown_images(page, words):
    output = [
        a.get("alt", a.get("aria-label", ""))
        for tag, a in page.tags
        if tag == "img" or a.get("class") == "shared"
    ]
    return [alt for alt in output if alt.startswith(words)]


def test_the_best_two_methods_are_shown_and_told_in_words(tmp_path):
    best = RUN.but(learner="FT-d", skill=0.5)
    others = RUN.but(learner="worst", skill=-0.5), RUN.but(learner="n", mistakes=False)
    paths = written(tmp_path, RUN, best, best.but(seed=1), *others)
    page = Page(write_report(paths, tmp_path / "out"))
    assert len(shown_images(page, "Worst mistakes of FT-d · small on task_")) == 4
    assert len(shown_images(page, "Worst mistakes of Indep · small on task_")) == 4
    assert len(shown_images(page, "Worst mistakes of ")) == 8
    assert "FT-d · small (seed 0) and Indep · small (seed 0)" in page.text
    assert "0 → 3 (0.90)" in shown_images(page, "Worst mistakes of FT-d")[0]
    assert "FT-d · small: 20 of 51 wrong, worst 0 → 3 (0.90)" in " ".join(page.text.split())
    frame = samples.tables(Section(1, read_runs(paths)[0]))["mistakes"]
    assert len(frame) == 4 * 4 * 12 and set(frame["rank"]) == set(range(1, 13))


def test_many_tasks_show_six_images_of_one_method(tmp_path):
    many = RUN.but(tasks=31)
    page = Page(write_report(written(tmp_path, many, many.but(learner="FT-d")), tmp_path / "out"))
    images = shown_images(page, "Worst mistakes of ")
    assert len(images) == 31
    address = next(a["src"] for tag, a in page.tags if tag == "img" and a["alt"] == images[0])
    data = base64.b64decode(address.partition(",")[2])
    assert Image.open(io.BytesIO(data)).size == (298, 48)
    assert images[0].count("→") == 6


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", '{"mistakes": [{}], "wrong": 1, "n": 2, "split": "test"}', '{"mistakes": 3}'],
)
def test_files_that_can_not_be_read_show_nothing(tmp_path, text):
    paths = written(tmp_path, RUN)
    file = paths[0] / "thumbnails" / "task_001-mistakes.json"
    file.write_text(text)
    (paths[0] / "thumbnails" / "task_002-mistakes.png").write_bytes(b"no picture")
    page = Page(write_report(paths, tmp_path / "out"))
    assert len(shown_images(page, "Worst mistakes of ")) == 2
    assert page.text.count("20 of 5") == 3


def test_names_and_labels_of_real_runs_become_captions(tmp_path):
    run(toy.ToyLearner(), toy.stream(), tmp_path / "run")
    (result,), _ = read_runs([tmp_path / "run"])
    file = tmp_path / "run" / "thumbnails" / "alpha-mistakes.json"
    record = json.loads(file.read_text())
    record["mistakes"][0] |= {"true_name": "<b>cat", "predicted_name": "dog"}
    file.write_text(json.dumps(record))
    assert read_mistakes(result, "alpha", 12).captions[0].startswith("<b>cat → dog (0.")
    assert read_mistakes(result, "gamma", 12).captions[0].startswith("label ")
    page = Page(write_report([tmp_path / "run"], tmp_path / "out"))
    assert "<b>cat → dog" in page.text and "b" not in {tag for tag, _ in page.tags}
    assert "No run has kept" not in page.text
