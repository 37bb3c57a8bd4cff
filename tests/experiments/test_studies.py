"""The studies: each resolves, and can be planned on the embedded stream. Their commands are checked
in tests/test_docs.py.
"""

import ast
import runpy
from pathlib import Path

import pytest

from nevis_stream.experiments import run_config, studies
from nevis_stream.experiments.plan import print_plan
from nevis_stream.streams.named_streams import load_stream, stream_rows

STUDIES = sorted((Path(__file__).resolve().parents[2] / "experiments" / "studies").glob("[!_]*.py"))


def test_every_config_file_of_a_study_has_a_name():
    assert [path.stem for path in STUDIES] == list(studies.NAMES)


@pytest.fixture(scope="module")
def pico():
    return load_stream("pico")


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_a_study_resolves_and_is_planned(path, pico, capsys):
    config = run_config.resolve(runpy.run_path(path)["get_config"]())
    run_config.build(config)
    assert stream_rows(config.stream)
    config.stream = "pico"
    print_plan(config, pico)
    printed = " ".join(capsys.readouterr().out.split())
    assert (
        "10 tasks" in printed
        and "Estimated FLOPs of one seed: " in printed
        and "Nothing was run" in printed
    )


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_a_study_says_what_it_asks_costs_and_what_the_paper_found(path):
    text = ast.get_docstring(ast.parse(path.read_text()))
    assert text.splitlines()[0].endswith("?")
    for part in (
        "Question: ",
        "CPU minutes",
        "At the paper's scale",
        "Cost by --dry_run: ",
        "The paper (NEVIS'22",
    ):
        assert part in " ".join(text.split()), part
    assert text.count(f"--config=experiments/studies/{path.name}") >= 1
