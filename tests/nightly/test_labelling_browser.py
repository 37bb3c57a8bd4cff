"""The page on which a person labels, in a real browser."""

import pytest

from nevis_stream.launch.label_commands import forms
from tests.active_testing.labelling.test_page import written
from tests.report.chromium import PATH, Browser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PATH is None, reason="chromium is not on PATH"),
]

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


def test_classes_of_one_character_are_their_own_keys(tmp_path):
    _, folder, _ = written(tmp_path, classes=["1", "0", "x"])
    with Browser(tmp_path / "profile") as browser:
        opened(browser, folder / forms.PAGE, 1200)
        for key in "0x1":
            browser.press(key)
        assert browser.evaluate(LABELS)[:3] == ["0", "x", "1"]
