"""The part of an evaluation cache in a real browser."""

import numpy as np
import pytest
from PIL import Image

from nevis_stream.experiments.evaluation_studies import evaluation_summary
from nevis_stream.report.build import write_report
from tests.experiments.evaluation_studies.test_evaluation_summary import studied
from tests.report.chromium import PATH, Browser
from tests.report.parts.test_dynamic_evaluation import make_cache

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PATH is None, reason="chromium is not on PATH"),
]


def test_the_picture_fits_the_theme_and_the_error_is_in_sight_on_a_phone(tmp_path):
    cache = make_cache(tmp_path / "toys")
    evaluation_summary.write(cache, *studied(cache), known_fraction=0.6)
    page = write_report([cache.directory], tmp_path / "out")
    table = "document.querySelector('[aria-label=\"Additions by cache and method\"]')"
    top = "document.querySelector('.outcomes img').getBoundingClientRect().top + scrollY"
    wrong = {}
    with Browser(tmp_path / "profile") as browser:
        for dark in (False, True):
            browser.open(page, 400, dark=dark)
            browser.screenshot(tmp_path / "shot.png", top=browser.evaluate(top), height=100)
            shot = np.asarray(Image.open(tmp_path / "shot.png").convert("L"))
            wrong[dark] = shot[20, 360]  # the best model, the hardest samples
        heading = (
            f"[...{table}.querySelectorAll('th')].find((th) => th.innerText.startsWith('MAE'))"
        )
        ends = [
            browser.evaluate(f"{element}.getBoundingClientRect().right")
            for element in (heading, table)
        ]
    assert ends[0] <= ends[1]
    assert wrong[False] > 200 and wrong[True] < 60
