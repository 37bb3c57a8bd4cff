"""The page on which a person labels, in a real browser; the contact sheet and the csv."""

import csv
import io

import numpy as np
import pytest
from PIL import Image

from nevis_stream.datasets.images import ArrayImages
from nevis_stream.errors import BadInput
from nevis_stream.experiments.labelling import forms
from tests.active_testing.labelling.sessions import begin
from tests.report.chromium import PATH, Browser

LABELS = "[...document.querySelectorAll('#strip span')].map((e) => e.textContent)"
PROGRESS = "document.getElementById('progress').textContent"
PRESSED = "[...document.querySelectorAll('#choices [aria-pressed=true]')].map((e) => e.textContent)"
# what the save button writes, instead of a file
SAVED = """new Promise((resolve) => {
  const make = URL.createObjectURL;
  URL.createObjectURL = (blob) => {
    URL.createObjectURL = make;
    resolve(blob.text());
    return make(blob);
  };
  document.getElementById('save').click();
})"""


def opened(browser, page, width):
    browser.open(page, width)
    browser.evaluate("started")  # the labels that the browser keeps have been read


def written(directory, prefix="s", **changes):
    session, _ = begin(directory / "session", prefix=prefix, **changes)
    number, rows = session.next(5)
    images = np.random.default_rng(0).integers(0, 255, (5, 10, 14, 3)).astype(np.uint8)
    return session, forms.write_round(session, number, rows, ArrayImages(images)), rows


def test_the_csv_and_the_contact_sheet_have_the_same_numbers(tmp_path):
    session, folder, rows = written(tmp_path, prefix='=a,"b')
    table = list(csv.DictReader(io.StringIO((folder / forms.CSV).read_text())))
    assert [row["number"] for row in table] == ["1", "2", "3", "4", "5"]
    assert table[0]["sample"] == "'" + session.ids[rows[0]]
    with Image.open(folder / forms.CONTACTS) as sheet:
        assert sheet.size == (5 * 96, 96 + 14)
    for row in table:
        row["label"] = "dog"
    file = tmp_path / "filled.csv"
    with open(file, "w", newline="") as out:
        writer = csv.DictWriter(out, table[0])
        writer.writeheader()
        writer.writerows(table)
    answers = forms.read_labels(session, file).classes
    assert answers == {session.ids[row]: 1 for row in rows}


def test_labels_that_a_person_typed_are_not_written_over(tmp_path):
    session, folder, rows = written(tmp_path)
    file, images = folder / forms.CSV, ArrayImages(np.zeros((5, 10, 14, 3), np.uint8))
    blank = file.read_bytes()
    forms.write_round(session, 1, rows, images)  # nothing typed: written again
    assert file.read_bytes() == blank
    typed = blank.replace(b",\n", b",cat\n", 1)
    file.write_bytes(typed)
    with pytest.raises(BadInput, match="contains 1 label that is not recorded yet.*Record the"):
        forms.write_round(session, 1, rows, images)
    assert file.read_bytes() == typed
    session.record(forms.read_labels(session, file).classes, str(file))
    forms.write_round(session, 1, rows, images)
    file.write_bytes(typed.replace(b",cat\n", b",dog\n"))  # the person thinks again
    with pytest.raises(BadInput, match="contains 1 label that is not recorded yet"):
        forms.write_round(session, 1, rows, images)


def test_the_page_holds_no_code_of_a_sample(tmp_path):
    _, folder, _ = written(tmp_path, prefix="</script><b>")
    text = (folder / forms.PAGE).read_text()
    assert "</script><b>" not in text and text.count("<script") == 2


@pytest.mark.skipif(PATH is None, reason="chromium is not on PATH")
def test_a_person_labels_in_a_browser(tmp_path):
    session, folder, rows = written(tmp_path, prefix='=,"é')
    with Browser(tmp_path / "profile") as browser:
        opened(browser, folder / forms.PAGE, 1200)
        assert browser.requests == [(folder / forms.PAGE).as_uri()] or all(
            not each.startswith("http") for each in browser.requests
        )
        assert browser.evaluate(PROGRESS) == "0 of 5 labelled"
        names = "[...document.querySelectorAll('#choices button')].map((e) => e.textContent)"
        assert browser.evaluate(names) == ["1cat", "2dog", "3owl", "? nobody can tell"]
        browser.press("3")  # owl, and on to the next picture
        browser.press("ArrowRight")
        browser.press("1")
        assert browser.evaluate(LABELS) == ["owl", "", "cat", "", ""]
        browser.evaluate("document.querySelectorAll('#choices button')[1].click()")
        assert browser.evaluate(LABELS) == ["owl", "", "cat", "dog", ""]
        browser.press("9")  # no such class
        browser.press("ArrowLeft")
        assert browser.evaluate(PRESSED) == ["2dog"]
        browser.press("Backspace")
        assert browser.evaluate(LABELS) == ["owl", "", "cat", "", ""]
        assert browser.evaluate("document.activeElement === document.body")

    with Browser(tmp_path / "profile") as browser:  # closed and opened again, on a phone
        opened(browser, folder / forms.PAGE, 400)
        assert browser.evaluate(PROGRESS) == "2 of 5 labelled"
        assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert browser.evaluate("document.getElementById('caption').textContent").startswith("2 of")
        for _ in range(3):
            browser.press("2")
        assert browser.evaluate(LABELS) == ["owl", "dog", "cat", "dog", "dog"]
        browser.evaluate("document.querySelectorAll('#strip button')[4].click()")
        browser.evaluate("document.querySelectorAll('#choices button')[3].click()")
        assert browser.evaluate(LABELS) == ["owl", "dog", "cat", "dog", "?"]
        browser.press("ArrowLeft")
        browser.press("ArrowRight")
        browser.press("2")
        browser.press("1")  # one key too many changes nothing
        assert browser.evaluate(LABELS) == ["owl", "dog", "cat", "dog", "dog"]
        assert "choose a picture to change its label" in browser.evaluate(PROGRESS)
        browser.press("ArrowLeft")
        browser.press("2")
        assert browser.evaluate(LABELS) == ["owl", "dog", "cat", "dog", "dog"]
        (tmp_path / "saved.csv").write_text(browser.evaluate(SAVED))
        assert not browser.console
    answers = forms.read_labels(session, tmp_path / "saved.csv").classes
    assert answers == {
        session.ids[row]: each for row, each in zip(rows, [2, 1, 0, 1, 1], strict=True)
    }
    assert session.record(answers, "saved.csv") == 5


@pytest.mark.skipif(PATH is None, reason="chromium is not on PATH")
def test_classes_of_one_character_are_their_own_keys(tmp_path):
    _, folder, _ = written(tmp_path, classes=["1", "0", "x"])
    with Browser(tmp_path / "profile") as browser:
        opened(browser, folder / forms.PAGE, 1200)
        for key in "0x1":
            browser.press(key)
        assert browser.evaluate(LABELS)[:3] == ["0", "x", "1"]
