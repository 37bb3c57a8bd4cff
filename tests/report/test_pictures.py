"""Pictures of the page: embedded once, and as many as fit."""

import base64
import io
import re

from PIL import Image

from nevis_stream.report.build import write_report
from nevis_stream.report.templates import embed_pictures
from tests.report.page_reader import Page
from tests.report.synthetic import SyntheticRun


def image(shade, width=20):
    buffer = io.BytesIO()
    Image.new("RGB", (width, 10), (shade, 0, 0)).save(buffer, "PNG")
    address = "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
    return address, f'<img src="{address}" alt="shade {shade} &lt;b&gt;" loading="lazy">'


def test_a_picture_that_stands_twice_is_embedded_once():
    (single, first), (two, second) = image(1), image(2)
    page = embed_pictures(f"<main><!-- pictures -->{first}{second}{first}</main>")
    assert page.count(single) == page.count(two) == 1
    assert page.count('<use href="#picture-0"/>') == 2
    assert page.count('aria-label="shade 1 &lt;b&gt;" viewBox="0 0 20 10"') == 2
    assert second in page and "eft out" not in page


def test_pictures_are_left_out_from_the_end_and_told():
    images = [image(shade)[1] for shade in range(30)]
    whole = "<main><!-- pictures -->" + "".join(images) + "</main>"
    most = len(whole.encode()) // 2 + 400 * 30
    page = embed_pictures(whole, most)
    remaining = len(re.findall("<img ", page))
    assert 0 < remaining < 30 and all(item in page for item in images[:remaining])
    assert len(page.encode()) <= most
    assert f"Left out of this page: {30 - remaining} of 30 rows of images" in page
    assert page.count("(picture left out)") == 30 - remaining
    assert embed_pictures(whole).count("<img ") == 30


def test_streams_of_the_same_tasks_share_their_thumbnails(tmp_path):
    runs = [
        SyntheticRun(digest=digit * 16, stream=f"stream{digit}", tasks=6, mistakes=digit == "b")
        for digit in "abc"
    ]
    paths = [run.write(tmp_path / str(i)) for i, run in enumerate(runs)]
    page = Page(write_report(paths, tmp_path / "out"))
    shared = [
        attributes
        for tag, attributes in page.tags
        if tag == "svg" and attributes.get("class") == "shared"
    ]
    assert len(shared) == 3 * 6
    assert sum(tag == "image" for tag, _ in page.tags) == 6
    assert sum(tag == "img" for tag, _ in page.tags) == 6  # of mistakes
    assert "Training images of task_001" in {attributes["aria-label"] for attributes in shared}
