"""Short trainings: what is learned is tested with longer ones, in the tests of what is trained."""

import pytest

from nevis_stream.dynamic_evaluation.neural_process import training
from nevis_stream.dynamic_evaluation.reinforcement import training as reinforcement


@pytest.fixture(autouse=True)
def short_trainings(monkeypatch):
    monkeypatch.setattr(training, "STEPS", training.STEPS_TOGETHER)
    for name, value in {"ITERATIONS": 2, "EPISODES": 4, "HORIZON": 3}.items():
        monkeypatch.setattr(reinforcement, name, value)
