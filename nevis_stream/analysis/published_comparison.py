"""Errors of runs next to the published ones, task by task, with the differences in the data."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nevis_stream.analysis.points import list_task_errors
from nevis_stream.analysis.seeds import SeedGroup, Spread, spread
from nevis_stream.analysis.slices import count_training_samples
from nevis_stream.catalogue import published
from nevis_stream.run_directory.records import TrainRecord


@dataclass(frozen=True)
class OwnError:
    """A method's test error over seeds, and its difference to the published error of the learner
    of the same name (NaN without one).
    """

    label: str
    error: Spread
    difference: float


@dataclass(frozen=True)
class PublishedComparison:
    """One task that has published values.

    Attributes:
      order, task_id: of the runs' stream.
      published_task: the published task that it is compared with.
      classes, samples: number of classes, and of samples for training and dev, in the runs (NaN:
        not recorded).
      published_classes, published_samples: the same as published.
      published: test errors by learner.
      own: one entry for each method.
    """

    order: int
    task_id: str
    published_task: str
    classes: int
    published_classes: int
    samples: float
    published_samples: int
    published: dict[str, float]
    own: tuple[OwnError, ...]

    @property
    def data_difference(self) -> str:
        """How the data differ from the published data; empty where the number of classes is the
        same and that of samples within 5%.
        """
        differences = []
        if self.classes != self.published_classes:
            differences.append(f"{self.classes} classes, published {self.published_classes}")
        if not abs(self.samples - self.published_samples) <= 0.05 * self.published_samples:
            samples = "not recorded" if math.isnan(self.samples) else f"{self.samples:.0f}"
            differences.append(f"{samples} samples, published {self.published_samples}")
        return "; ".join(differences)


def compare_with_published(groups: Sequence[SeedGroup]) -> list[PublishedComparison]:
    """Returns the tasks of the runs that have published values, in stream order; empty where no
    test split was predicted.

    A task is compared with the published one of the same id, else with the first of its data set.
    Published errors are those of the full-size network and budget after the whole stream, so a
    difference is not one of learners alone.

    Args:
      groups: methods of one stream and protocol; published ones are ignored.

    Source: NEVIS'22, Appendix N.
    """
    own = [group for group in groups if not group.runs[0].published]
    runs = [run for group in own for run in group.runs]
    if not runs or runs[0].header.protocol != "meta_test":
        return []
    tasks = {train.task_id: train for run in runs for train in run.ledger.of_kind(TrainRecord)}
    errors = {
        run.path: {result.task_id: result.error for result in list_task_errors(run.ledger)}
        for run in runs
    }
    comparisons = []
    for task_id, train in sorted(tasks.items(), key=lambda item: item[1].order):
        published_task = published.find_task(task_id, train.dataset_id)
        if published_task is None:
            continue
        by_learner = published.read_errors()[published_task]
        facts = published.read_facts()[published_task]
        own_errors = []
        for group in own:
            error = spread([errors[run.path].get(task_id, math.nan) for run in group.runs])
            difference = error.mean - by_learner.get(group.learner, math.nan)
            own_errors.append(OwnError(group.label, error, difference))
        comparisons.append(
            PublishedComparison(
                order=train.order,
                task_id=task_id,
                published_task=published_task,
                classes=train.num_classes,
                published_classes=int(facts["num_classes"]),
                samples=count_training_samples(train),
                published_samples=int(facts["size"]),
                published=by_learner,
                own=tuple(own_errors),
            )
        )
    return comparisons
