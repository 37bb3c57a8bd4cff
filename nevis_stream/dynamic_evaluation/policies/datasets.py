"""Random samples, equally many of each data set (S-Rand)."""

import numpy as np

from nevis_stream.dynamic_evaluation.asking import Cells
from nevis_stream.dynamic_evaluation.policy import Policy
from nevis_stream.dynamic_evaluation.sampling import numpy_generator
from nevis_stream.errors import BadInput


class Datasets(Policy):
    """Divides the budget equally among the data sets; some get one more, drawn at random."""

    about = "random samples, equally many of each data set"
    representative = True

    def check(self, facts):
        """Refuses samples without data sets."""
        if facts.dataset is None:
            raise BadInput(
                "datasets: the samples belong to no data sets; import values with a column"
                " `dataset`, or use random or strata."
            )

    def least(self, facts):
        """Each data set needs a sample, or its mean would be left out."""
        return 1 if facts.dataset is None else len(set(facts.dataset.tolist()))

    def fit(self, known, beliefs, key, ctx):
        """Notes which data set each sample belongs to."""
        self.check(known.facts)
        return {"dataset": np.unique(known.facts.dataset, return_inverse=True)[1]}

    def next(self, plan, answers, key, ctx) -> Cells:
        """Returns the whole draw."""
        dataset, n, budget = plan.tree["dataset"], plan.n, plan.budget
        sizes, random = np.bincount(dataset), numpy_generator(key)
        places = [np.flatnonzero(dataset == each) for each in range(len(sizes))]
        counts = divided(sizes, budget, random)
        chances = np.concatenate(
            [1 / (size - np.arange(count)) for size, count in zip(sizes, counts, strict=True)]
        )
        shares = np.repeat(sizes / n / np.maximum(counts, 1), counts)
        models = len(answers.values)
        drawn = [
            np.concatenate(
                [
                    random.choice(place, count, replace=False)
                    for place, count in zip(places, counts, strict=True)
                ]
            )
            for _ in range(models)
        ]
        shape = (models, budget)
        samples = np.asarray(drawn, np.int64).reshape(shape)
        return Cells(samples, np.broadcast_to(chances, shape), np.broadcast_to(shares, shape))


def divided(sizes: np.ndarray, budget: int, random: np.random.Generator) -> np.ndarray:
    """Returns how many samples to ask of each data set, int64, adding up to the budget; as equal as
    the sizes, int64, allow.
    """
    counts = np.zeros(len(sizes), np.int64)
    while (left := budget - counts.sum()) > 0:
        free = np.flatnonzero(counts < sizes)
        each = min(left // len(free), (sizes - counts)[free].min())
        if each:
            counts[free] += each
        else:
            counts[random.permutation(free)[:left]] += 1
    return counts


POLICY = Datasets()
