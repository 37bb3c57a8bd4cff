"""Learners of run directories: of the current format and of the previous one, which is kept in
tests/golden.
"""

from pathlib import Path

import pytest

from nevis_stream.configs import run_config
from nevis_stream.configs.recorded import load_learner, to_config
from nevis_stream.errors import BadInput
from nevis_stream.learners.parts.initialisation import FromPrevious, FromRandom
from nevis_stream.run_directory.config import read_values

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize(("name", "start"), [("ft_prev", FromPrevious), ("indep", FromRandom)])
def test_a_learner_of_the_format_before_is_built(name, start):
    recorded = read_values(GOLDEN / name)
    assert recorded["initialisation"] is None  # the name says it
    learner = load_learner(recorded)
    assert isinstance(learner.initialisation, start)
    assert learner.recipe.steps == recorded["train"]["steps"]
    assert run_config.resolve(to_config(recorded)).build() == learner


def test_what_cannot_be_built_is_named(tmp_path):
    (tmp_path / "config.json").write_text('{"learner": "ft_prev"}')
    with pytest.raises(BadInput, match="not the directory of a run of launch.run"):
        read_values(tmp_path)
    with pytest.raises(
        BadInput, match="'Mine' is not in the table of learners: its run was started from Python"
    ):
        load_learner({"learner": "Mine", "options": {}})
