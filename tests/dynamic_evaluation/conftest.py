"""Short trainings: what is learned is tested with longer ones, in the tests of what is trained."""

import pytest

from nevis_stream.experiments.methods import reinforcement_training as reinforcement
from nevis_stream.experiments.methods.neural_process import network as training

SHORT = {"STEPS": training.STEPS_TOGETHER, "TASKS": 4, "ASKED": 32, "PREDICTED": 32}


@pytest.fixture(autouse=True)
def short_trainings(monkeypatch):
    for name, value in SHORT.items():
        monkeypatch.setattr(training, name, value)
    for name, value in {"ITERATIONS": 2, "EPISODES": 4, "HORIZON": 3}.items():
        monkeypatch.setattr(reinforcement, name, value)
