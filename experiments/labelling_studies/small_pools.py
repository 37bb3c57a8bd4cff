"""Coverage of the intervals in small pools, up to where nearly all samples have a label.

    python -m experiments.labelling_studies.small_pools

Pools of 120 to 1,000 pictures of MNIST, drawn from those of six small networks without 7s
(`known_networks`); the surrogate is the tested network itself. 150 repetitions, each with its own
pool; samples are drawn by their root mean square loss, a twentieth of the pool at a time.
"""

import itertools
from collections.abc import Iterator

import numpy as np

from nevis_stream.active_testing.pool import Pool
from nevis_stream.active_testing.surrogate import SurrogateData
from nevis_stream.active_testing.surrogates import build_surrogate
from nevis_stream.experiments import engine
from nevis_stream.experiments.labelling_studies.simulation import Acquisition, simulate
from nevis_stream.experiments.labelling_studies.tested_models import train_tested_network
from nevis_stream.experiments.scripts import describe
from nevis_stream.seeds import generator, seed_for

SIZES, NETWORKS, REPETITIONS = (120, 300, 1000), range(5, 11), 150
TWENTIETHS = (8, 12, 16, 18, 19)
ESTIMATORS = ("equal_steps", "lure", "difference", "tuned_difference")


def measure_coverage(subjects, size: int, loss: str) -> np.ndarray:
    """Returns float64[estimators, s]: shares of intervals that contain the risk, after each of
    `TWENTIETHS` of the pool.
    """
    steps = tuple(size // 20 * part for part in range(TWENTIETHS[-1] + 1))
    covered = []
    for number in range(REPETITIONS):
        data, truth = subjects[number % len(subjects)]
        rows = generator(number, "rows").permutation(len(truth))[:size]
        pool = Pool.of(data.predictions[rows], loss)
        path = simulate(
            pool,
            truth[rows],
            build_surrogate("tested_model", SurrogateData(pool.predictions)),
            Acquisition.named("rms_loss"),
            steps[-1],
            seed_for(number, "path", size, loss),
            ESTIMATORS,
            steps,
        )
        shown = np.isin(path.steps, [steps[part] for part in TWENTIETHS])
        _, low, high = np.moveaxis(path.estimates[:, shown], 2, 0)
        risk = pool.risk(truth[rows])
        covered.append((low <= risk) & (risk <= high))
    return np.mean(covered, axis=0)


def _list_rows() -> Iterator[list[object]]:
    subjects = [train_tested_network(number) for number in NETWORKS]
    for size, loss in itertools.product(SIZES, ("cross_entropy", "zero_one")):
        covered = measure_coverage(subjects, size, loss)
        for name, shares in zip(ESTIMATORS, covered, strict=True):
            yield [size, loss, name, *(f"{share:.1%}" for share in shares)]


def main() -> None:
    """Prints the table, in Markdown."""
    print(f"{describe()}\n")
    heads = " | ".join(f"{part / 20:.0%} labelled:" for part in TWENTIETHS)
    engine.print_table(f"pool: | loss | estimator | {heads}", _list_rows())


if __name__ == "__main__":
    engine.start(main, keep_programs=False)
