"""Known networks and a new one on MNIST, as `known_models` and `small_pools` need them."""

from functools import cache

import numpy as np

from nevis_stream.active_testing.surrogate import SurrogateData
from nevis_stream.experiments.labelling.features import PatchFeatures
from nevis_stream.experiments.labelling_studies.tested_models import examples, load, train_networks
from nevis_stream.seeds import generator, seed_for

POOL, MISSING, KNOWN, CALIBRATION = 2500, 7, 12, 500
SIZES = np.geomspace(150, 2500, KNOWN).astype(int)
LACKING_TOO = (4, 9)  # known models without the missing class, if it is shared


@cache
def _data():
    images, labels = load("mnist")
    return images, labels, PatchFeatures.fit(images)


@cache
def _train(number: int, size: int, lacks: int | None, *name: str | int):
    """Returns a network's answers on the pool of a repetition, and the rows that it was given."""
    images, labels, _ = _data()
    order = generator(number, "known models").permutation(len(labels))
    pool, rest = order[:POOL], order[POOL:]
    rows = generator(number, *name).permutation(rest)
    rows = rows[labels[rows] != (-1 if lacks is None else lacks)][: size + CALIBRATION]
    train, held_out = rows[:size], rows[size:]
    (answer,) = train_networks(images, labels, train, held_out, pool, seed_for(number, *name))
    return answer, pool, train, held_out


def tested_network(number: int) -> tuple[SurrogateData, np.ndarray]:
    """Returns the new network's answers on the pool of a repetition, and the pool's labels."""
    predictions, pool, _, _ = _train(number, 2000, MISSING, "new")
    return SurrogateData(predictions), _data()[1][pool]


def repetition(number: int, case: str) -> tuple[SurrogateData, np.ndarray]:
    """Returns the data and the pool's labels of a repetition.

    Args:
      number: of the repetition.
      case: "shared" if two known networks lack the class that the new one lacks.
    """
    images, labels, extractor = _data()
    random = generator(number, "lacking")
    others = [label for label in range(10) if label != MISSING]
    lacking = [int(random.choice(others)) if model % 2 else None for model in range(KNOWN)]
    if case == "shared":
        for model in LACKING_TOO:
            lacking[model] = MISSING
    predictions, pool, train, held_out = _train(number, 2000, MISSING, "new")
    outcomes = [
        _train(number, int(size), lacks, "known", model)[0].argmax(axis=1) == labels[pool]
        for model, (size, lacks) in enumerate(zip(SIZES, lacking, strict=True))
    ]
    features = np.zeros((len(labels), extractor.tree["projection"].shape[1]), np.float32)
    used = np.concatenate([pool, train, held_out])
    features[used] = extractor(images[used])
    given = (examples(images, labels, rows, features) for rows in (train, held_out))
    known = np.array(outcomes, float)
    return SurrogateData(predictions, features[pool], None, None, known, *given), labels[pool]
