"""What studies of learners keep of a run, and how their queue calls one."""

import sys
import threading

import pytest

from nevis_stream.configs import run_config
from nevis_stream.experiments.learner_studies.recorded_runs import (
    RecordedRuns,
    read_result,
)
from nevis_stream.experiments.scripts import call
from nevis_stream.run_directory.environment import describe_environment
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import TrainRecord
from tests import toy


def test_a_result_has_what_later_questions_need(tmp_path):
    config = run_config.make_default("ft_dynamic")
    config.train.update(steps=4, validate_every=2)
    config.search.trials, config.network.resolution = 1, 8
    run_config.run_config_once(run_config.resolve(config), toy.stream(), tmp_path / "run")
    recorded, cell = RecordedRuns(tmp_path / "runs.jsonl", "setting"), ("toy", "ft_dynamic", 0)
    recorded.add(cell, read_result(tmp_path / "run"))
    assert recorded.has(cell)
    result, facts = recorded.read()[cell], describe_environment()
    commit = facts.get("project", "unknown")  # outside of a checkout
    assert (result["commit"], result["processor"]) == (commit, facts["processor"])
    for record in Ledger(tmp_path / "run").of_kind(TrainRecord):
        info, task = record.chosen_trial.info, record.task_id
        assert result["starts"][task] == info["initialised_from"]
        assert result["scores"].get(task) == info.get("related")
        assert [step for step, _ in result["curves"][task]] == [0, 2, 4]
        assert 0 <= result["errors"][task] <= 1
    assert len(result["scores"]) == len(result["starts"]) - 1 == 3


def test_a_command_is_stopped_while_a_file_exists(tmp_path):
    pause, written = tmp_path / "pause", tmp_path / "written"
    pause.touch()
    seen = []

    def go_on():
        seen.append(written.exists())
        pause.unlink()

    threading.Timer(1.5, go_on).start()
    words = [sys.executable, "-c", f"import pathlib; pathlib.Path({str(written)!r}).touch()"]
    seconds, peak = call(words, pause)
    assert seen == [False] and written.exists() and seconds > 0 and peak > 1e6
    with pytest.raises(SystemExit, match="failed with status 3"):
        call([sys.executable, "-c", "raise SystemExit(3)"], None)
