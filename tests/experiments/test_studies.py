"""The studies: each resolves, can be planned on the embedded stream, and is described. The commands
of their page are checked in tests/test_docs.py.
"""

from pathlib import Path

import pytest

from nevis_stream.configs import run_config
from nevis_stream.configs.plan import print_plan
from nevis_stream.experiments.studies import STUDIES
from nevis_stream.launch import config_flag
from nevis_stream.streams.named_streams import list_stream_rows, load_stream

pytestmark = pytest.mark.usefixtures("embedded_once")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "studies.md"
SECTIONS = dict(part.split(": ", 1) for part in PAGE.read_text().split("\n## ")[1:])


@pytest.fixture(scope="module")
def pico():
    return load_stream("pico")


# tests/test_documented_commands.py plans the others by their commands
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (place > 0))
        for place, name in enumerate(STUDIES)
    ],
)
def test_a_study_resolves_and_is_planned(name, pico, capsys):
    config = run_config.resolve(STUDIES[name].config())
    assert list_stream_rows(config.stream)
    print_plan(config, pico)
    printed = " ".join(capsys.readouterr().out.split())
    assert (
        "10 tasks" in printed
        and "Estimated FLOPs of one seed: " in printed
        and "Nothing was run" in printed
    )


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_says_what_it_asks_costs_and_what_the_paper_found(name):
    text = SECTIONS[name]
    assert text.splitlines()[0].endswith("?")
    for part in (
        "Question: ",
        "CPU minutes",
        "At the paper's scale",
        "Cost by `--dry_run`: ",
        "The paper (NEVIS'22",
    ):
        assert part in " ".join(text.split()), part
    assert text.count(f"--config=studies/{name}") >= 1


def test_each_study_has_a_section():
    assert list(SECTIONS) == list(STUDIES)


@pytest.mark.parametrize("form", ["order", "studies/order", "experiments/studies/order.py"])
def test_a_study_is_named_as_now_and_as_it_was(form):
    assert config_flag.split_words([f"--config={form}"]).config().stream.startswith("shuffled")
