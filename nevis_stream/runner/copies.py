"""Images that occur twice: in a task's training and test data, which makes its error too low, and
in two tasks.
"""

import warnings

from nevis_stream.datasets.splits import to_csv
from nevis_stream.errors import DataWarning
from nevis_stream.runner.work import Work
from nevis_stream.storage import write_file
from nevis_stream.streams.task import Event
from nevis_stream.vocabulary import PROTOCOLS


def count_leaked(work: Work, event: Event) -> int:
    """Counts the test images of a task that are exact copies of its training images, and warns."""
    split = PROTOCOLS[work.config.values["protocol"]].split
    leaked = work.stream.count_leaks(event, split)
    if leaked:
        n = len(work.stream.splits_of(event)[split])
        warnings.warn(
            f"task {event.task.task_id!r}: {leaked} of {n} images of its {split} split are exact"
            " copies of images in its train or dev split, so its error is too low. The ledger"
            " counts them (n_leaked) and the report shows them.",
            DataWarning,
            stacklevel=2,
        )
    return leaked


def write_overlaps(work: Work) -> None:
    """Writes overlap.csv: how many images of each task earlier tasks train on."""
    file = work.path / "overlap.csv"
    if not file.exists():
        events = work.ledger.header.events
        work.progress.event(-1, events, "compare the images of the tasks")
        write_file(file, to_csv(work.stream.overlaps()).encode())
