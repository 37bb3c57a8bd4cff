"""Own errors next to the published ones, task by task, with differences in the data."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from nevis_stream.analysis.judged import task_errors
from nevis_stream.analysis.seeds import SeedGroup, Spread, spread
from nevis_stream.analysis.slices import training_samples
from nevis_stream.catalogue import published
from nevis_stream.run_directory.records import TrainRecord


@dataclass(frozen=True)
class OwnError:
    """A method's test error over seeds, and its difference to the published error of the learner of
    that name (NaN: none).
    """

    label: str
    error: Spread
    difference: float


@dataclass(frozen=True)
class Beside:
    """One task that has published values.

    Attributes:
      order, task_id: of the runs' stream.
      published_task: the published task that it is compared with.
      classes, samples: number of classes, and of samples for training and dev, here (NaN: not
        recorded).
      published_classes, published_samples: the same as published.
      published: test errors by learner.
      own: one entry a method.
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
    def other_data(self) -> str:
        """How the data differ from the published ones; empty for equal classes and samples within
        5%.
        """
        differences = []
        if self.classes != self.published_classes:
            differences.append(f"{self.classes} classes, published {self.published_classes}")
        if not abs(self.samples - self.published_samples) <= 0.05 * self.published_samples:
            here = "not recorded" if math.isnan(self.samples) else f"{self.samples:.0f}"
            differences.append(f"{here} samples, published {self.published_samples}")
        return "; ".join(differences)


def beside(groups: Sequence[SeedGroup]) -> list[Beside]:
    """Returns the tasks of the runs that have published values, in stream order; none where no test
    split was predicted.

    A task is compared with the published one of the same id, else with the first of its data set.
    Published errors are those of the full-size network and budget after the whole stream, so a
    difference is not one of learners alone.

    Args:
      groups: methods of one stream and protocol; published ones are passed over.

    Source: NEVIS'22, Appendix N.
    """
    own = [group for group in groups if not group.runs[0].published]
    runs = [run for group in own for run in group.runs]
    if not runs or runs[0].header.protocol != "meta_test":
        return []
    tasks = {train.task_id: train for run in runs for train in run.ledger.of_kind(TrainRecord)}
    errors = {
        run.path: {result.task_id: result.error for result in task_errors(run.ledger)}
        for run in runs
    }
    rows = []
    for task_id, train in sorted(tasks.items(), key=lambda item: item[1].order):
        theirs = published.task_of(task_id, train.dataset_id)
        if theirs is None:
            continue
        cells = []
        for group in own:
            error = spread([errors[run.path].get(task_id, math.nan) for run in group.runs])
            namesake = published.errors()[theirs].get(group.learner, math.nan)
            cells.append(OwnError(group.label, error, error.mean - namesake))
        facts = published.facts()[theirs]
        classes = train.num_classes, int(facts["num_classes"])
        samples = training_samples(train), int(facts["size"])
        rows.append(
            Beside(
                train.order,
                task_id,
                theirs,
                *classes,
                *samples,
                published.errors()[theirs],
                tuple(cells),
            )
        )
    return rows
