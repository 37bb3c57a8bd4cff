"""The page on which a person labels, the contact sheet and the csv."""

import csv
import io

import numpy as np
import pytest
from PIL import Image

from nevis_stream.datasets.images import ArrayImages
from nevis_stream.errors import BadInput
from nevis_stream.launch.label_commands import forms
from tests.active_testing.labelling.sessions import begin


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
