"""A pool of MNIST with a class that the tested model and the surrogates have never seen."""

import numpy as np

from nevis_stream.active_testing.surrogate import SurrogateData
from nevis_stream.experiments.labelling_studies.tested_models import examples, train_networks
from nevis_stream.seeds import generator, seed_for

TRAINING, CALIBRATION, MISSING = 2000, 500, 7


def repetition(images, labels, features, number, size):
    """Returns the data and the pool's labels of one repetition, with a pool of a size."""
    random = generator(number, "shift")
    order = random.permutation(len(labels))
    known = order[labels[order] != MISSING][: TRAINING + CALIBRATION]
    pool = random.permutation(np.setdiff1d(order, known))[:size]
    train, rest = known[:TRAINING], known[TRAINING:]
    seed = seed_for(number, "tested")
    (predictions,) = train_networks(images, labels, train, rest, pool, seed)
    given = (examples(images, labels, rows, features) for rows in (train, rest))
    data = SurrogateData(predictions, features[pool], images[pool], None, None, *given)
    return data, labels[pool]
