"""A stream whose next task depends on the last error."""

from dataclasses import replace

from nevis_stream.run_directory.records import PredictRecord, TrainRecord
from nevis_stream.streams.stream import Schedule, Stream
from nevis_stream.streams.task import Event
from nevis_stream.vocabulary import PROTOCOLS
from tests import toy


class Adaptive(Schedule):
    """After an error above the limit a task with fewer classes comes, else one with more; `count`
    tasks in all, of the pool's data sets.
    """

    def __init__(self, limit=0.75, count=3):
        self.count = count
        self.rule = f"easier after an error above {limit}, {count} tasks"
        self.limit = limit

    def next(self, stream, history):
        trained = history.of_kind(TrainRecord)
        predicted = history.of_kind(PredictRecord)
        if len(trained) > len(predicted):
            task = self.task(stream, trained[-1].order, trained[-1].dataset_id)
            return Event(task, PROTOCOLS[history.header.protocol].split)
        if len(trained) == self.count:
            return None
        last = predicted[-1] if predicted else None
        dataset = "easy" if last and last.error > self.limit else "hard"
        return Event(self.task(stream, len(trained) + 1, dataset))

    def task(self, stream, order, dataset_id):
        row = next(task for task in stream.tasks if task.dataset_id == dataset_id)
        return replace(row, order=order, task_id=f"task_{order}_{dataset_id}")


def result_stream(schedule=None):
    pool = [toy.blobs("easy", classes=2, seed=1), toy.blobs("hard", classes=5, seed=2)]
    stream = Stream.from_datasets("adaptive", pool, [2000, 2000], meta_test=2)
    return stream.with_schedule(schedule or Adaptive())
