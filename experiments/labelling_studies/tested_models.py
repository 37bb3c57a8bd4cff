"""What the studies of label-efficient testing share: data, tested models, known networks, a pool of
MNIST with a class that the tested model and the surrogates have never seen, and tables.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np

from nevis_stream.active_testing.estimators import ESTIMATORS
from nevis_stream.active_testing.surrogate import LabelledSamples, SurrogateData
from nevis_stream.active_testing.surrogates.networks import CONVOLUTIONS, RetrainedEnsemble
from nevis_stream.catalogue import find_shared_directory
from nevis_stream.experiments.labelling_studies.simulation import compare_squared_errors
from nevis_stream.learners.closed_form.patch_features import PatchFeatures
from nevis_stream.queries.oracle import Query, Responses
from nevis_stream.seeds import generator, seed_for
from nevis_stream.storage.reading import read_npz

NO_ANSWERS = Responses(Query.none(1), np.empty((1, 0), np.int32))


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns all pictures of a shared data set, uint8[n, side, side, channels], and labels int64.

    The test part comes last.
    """
    arrays = read_npz(find_shared_directory() / "data" / f"{name}.npz")
    parts = [part for part in ("_train", "", "_test") if f"images{part}" in arrays]
    images = np.concatenate([arrays[f"images{part}"] for part in parts])
    labels = np.concatenate([arrays[f"labels{part}"] for part in parts])
    return images.reshape(*images.shape[:3], -1), labels.astype(np.int64)


def take_examples(images, labels, rows, features=None) -> LabelledSamples:
    """Returns the examples at some rows."""
    return LabelledSamples(labels[rows], None if features is None else features[rows], images[rows])


def train_networks(
    images, labels, train, calibration, pool, seed: int, members: int = 1, classes: int = 10
) -> np.ndarray:
    """Returns float64[members, pool, c]: calibrated probabilities of small networks.

    Args:
      images, labels: of everything.
      train, calibration, pool: rows.
      seed: of all random numbers.
      members: number of networks.
      classes: their number, c.
    """
    data = SurrogateData(
        np.full((len(pool), classes), 1 / classes),
        images=images[pool],
        training=take_examples(images, labels, train),
        calibration=take_examples(images, labels, calibration),
    )
    ensemble = RetrainedEnsemble(CONVOLUTIONS, "images", data, seed, members)
    return np.asarray(ensemble(NO_ANSWERS).probabilities, np.float64)


def make_heads(columns: str, shown: Sequence[int]) -> str:
    """Returns the heads of a table with `format_ratios` (`engine.print_table`).

    Args:
      columns: heads of the columns that say which test it was.
      shown: numbers of labels, a column each.
    """
    return " | ".join([columns, "estimator | n:", *(f"M = {asked}:" for asked in shown)])


def format_ratios(
    paths: Sequence[Mapping[str, float]], shown: Sequence[int], estimators=tuple(ESTIMATORS)
) -> dict[str, list[str]]:
    """Returns for each estimator that has estimates a cell for each number of labels: the ratio of
    medians with its 95% interval, and the ratio of means; of a single path the latter alone.

    Args:
      paths: of `RecordedPaths`.
      shown: numbers of labels.
      estimators: names.
    """
    risks, variances = (np.array([path[name] for path in paths]) for name in ("risk", "variance"))
    everything, rows = np.arange(len(paths)), {}
    for estimator in estimators:
        cells = []
        for asked in shown:
            values = np.array([path[f"{estimator}_{asked}"] for path in paths])
            if not np.isfinite(values).all():
                break

            def ratios(chosen, values=values, asked=asked):
                n = int(paths[0]["n"])
                return compare_squared_errors(
                    values[chosen], risks[chosen], variances[chosen], asked, n
                )

            median, mean = ratios(everything)
            if len(paths) == 1:  # it has no interval, and its median is the same
                cells.append(f"{mean:.2f}")
                continue
            low, high = bootstrap_interval(lambda rows: ratios(rows)[0], len(paths))
            cells.append(f"{median:.2f} [{low:.2f}, {high:.2f}], {mean:.2f}")
        if cells:
            rows[estimator] = cells
    return rows


def bootstrap_interval(
    statistic: Callable[[np.ndarray], float], count: int, seed: int = 0, draws: int = 1000
) -> tuple[float, float]:
    """Returns the 95% percentile interval of a statistic over repetitions.

    Args:
      statistic: from the indices int64[r] of repetitions to a number.
      count: number of repetitions.
      seed: of the draws.
      draws: number of bootstrap samples.
    """
    random = generator(seed, "bootstrap")
    values = [statistic(random.integers(count, size=count)) for _ in range(draws)]
    low, high = np.nanquantile(values, [0.025, 0.975])
    return float(low), float(high)


TRAINING, CALIBRATION, MISSING = 2000, 500, 7  # no network has seen the missing class


def make_shifted_repetition(images, labels, features, number, size):
    """Returns the data and the pool's labels of one repetition, with a pool of a size."""
    random = generator(number, "shift")
    order = random.permutation(len(labels))
    known = order[labels[order] != MISSING][: TRAINING + CALIBRATION]
    pool = random.permutation(np.setdiff1d(order, known))[:size]
    train, rest = known[:TRAINING], known[TRAINING:]
    seed = seed_for(number, "tested")
    (predictions,) = train_networks(images, labels, train, rest, pool, seed)
    given = (take_examples(images, labels, rows, features) for rows in (train, rest))
    data = SurrogateData(predictions, features[pool], images[pool], None, None, *given)
    return data, labels[pool]


POOL, KNOWN = 2500, 12
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


def train_tested_network(number: int) -> tuple[SurrogateData, np.ndarray]:
    """Returns the new network's answers on the pool of a repetition, and the pool's labels."""
    predictions, pool, _, _ = _train(number, 2000, MISSING, "new")
    return SurrogateData(predictions), _data()[1][pool]


def make_known_repetition(number: int, case: str) -> tuple[SurrogateData, np.ndarray]:
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
    given = (take_examples(images, labels, rows, features) for rows in (train, held_out))
    known = np.array(outcomes, float)
    return SurrogateData(predictions, features[pool], None, None, known, *given), labels[pool]
