"""Small sessions and the labels of their samples."""

import numpy as np

from nevis_stream.active_testing.labelling.files import PoolPart, SessionSettings, digest
from nevis_stream.active_testing.labelling.session import Session
from nevis_stream.active_testing.surrogate import SurrogateData

CLASSES = ("cat", "dog", "owl")


def softmax(x):
    powers = np.exp(x)
    return powers / powers.sum(axis=-1, keepdims=True)


def example(n=60, seed=0, models=2, prefix="s"):
    """Ids, the models' probabilities, and the true classes."""
    random = np.random.default_rng(seed)
    labels = random.integers(len(CLASSES), size=n)
    logits = 2 * np.eye(len(CLASSES))[labels] + random.normal(0, 1.2, (models, n, len(CLASSES)))
    return [f"{prefix}{number}" for number in range(n)], softmax(logits), labels


def begin(directory, n=60, seed=0, models=2, pool="nowhere", prefix="s", **changes):
    ids, predictions, labels = example(n, seed, models, prefix)
    facts = {
        "pool": str(pool),
        "models": [f"m{number}" for number in range(models)],
        "classes": list(CLASSES),
        "loss": "zero_one",
        "rule": "expected_loss",
        "surrogate": "tested_model",
        "uniform": 0.2,
        "seed": 0,
        "digest": digest(ids, predictions),
    }
    settings = SessionSettings(**(facts | changes))
    samples = PoolPart(settings.pool, ids, predictions, SurrogateData(predictions[0]))
    return Session.start(directory, settings, samples), labels


def truth(session, rows, labels):
    """The true classes of samples, by id."""
    return {session.ids[row]: int(labels[row]) for row in rows}
