"""nevis_stream: learners learn a stream of vision tasks, in the order in which research met them,
and are judged by error against cumulative FLOPs.

    import nevis_stream as ns

    ns.run("closed_form", "pico", "runs/a", preset="small")
    ns.run(my_learner, "pico", "runs/b")
    print(ns.compare("runs/a", "runs/b"))
    ns.write_report(["runs/a", "runs/b"], out="report")

`nevis_stream.dynamic_evaluation` evaluates a new model on a few samples of a leaderboard, and
`nevis_stream.active_testing` estimates a model's error from few labels. What is named here and
there is the public interface; docs/api.md lists it. Everything else is internal.
"""

from typing import TYPE_CHECKING

from nevis_stream.lazy import load_lazily

if TYPE_CHECKING:
    from nevis_stream.analysis.differences import Comparison as Comparison
    from nevis_stream.analysis.pairs import compare as compare
    from nevis_stream.datasets.dataset import DataSet as DataSet
    from nevis_stream.datasets.dataset import Samples as Samples
    from nevis_stream.datasets.dataset import make_dataset as make_dataset
    from nevis_stream.datasets.images import Images as Images
    from nevis_stream.datasets.readers import read_dataset as read_dataset
    from nevis_stream.errors import BadInput as BadInput
    from nevis_stream.errors import DamagedCache as DamagedCache
    from nevis_stream.errors import DamagedCheckpoint as DamagedCheckpoint
    from nevis_stream.errors import DataWarning as DataWarning
    from nevis_stream.errors import LearnerFault as LearnerFault
    from nevis_stream.errors import NevisStreamError as NevisStreamError
    from nevis_stream.errors import RunLocked as RunLocked
    from nevis_stream.errors import RunWarning as RunWarning
    from nevis_stream.errors import StorageFull as StorageFull
    from nevis_stream.evaluation_cache.evaluation_cache import EvaluationCache as EvaluationCache
    from nevis_stream.executor import Executor as Executor
    from nevis_stream.executor import Trial as Trial
    from nevis_stream.learner import Context as Context
    from nevis_stream.learner import Learner as Learner
    from nevis_stream.learner import Predictor as Predictor
    from nevis_stream.learner import learner_names as learner_names
    from nevis_stream.learner import make_learner as make_learner
    from nevis_stream.metrics import Metric as Metric
    from nevis_stream.progress import Progress as Progress
    from nevis_stream.progress import Silent as Silent
    from nevis_stream.queries.oracle import Estimate as Estimate
    from nevis_stream.report.build import write_report as write_report
    from nevis_stream.run_directory.ledger import Ledger as Ledger
    from nevis_stream.runner import run as run
    from nevis_stream.streams.named_streams import load_stream as load_stream
    from nevis_stream.streams.rows import stream_names as stream_names
    from nevis_stream.streams.stream import Schedule as Schedule
    from nevis_stream.streams.stream import Stream as Stream
    from nevis_stream.streams.task import Draw as Draw
    from nevis_stream.streams.task import Event as Event
    from nevis_stream.streams.task import Task as Task
    from nevis_stream.streams.task import TaskView as TaskView

_HOMES = {
    "BadInput": "errors",
    "Comparison": "analysis.differences",
    "Context": "learner",
    "DamagedCache": "errors",
    "DamagedCheckpoint": "errors",
    "DataSet": "datasets.dataset",
    "DataWarning": "errors",
    "Draw": "streams.task",
    "Estimate": "queries.oracle",
    "EvaluationCache": "evaluation_cache.evaluation_cache",
    "Event": "streams.task",
    "Executor": "executor",
    "Images": "datasets.images",
    "Learner": "learner",
    "LearnerFault": "errors",
    "Ledger": "run_directory.ledger",
    "Metric": "metrics",
    "NevisStreamError": "errors",
    "Predictor": "learner",
    "Progress": "progress",
    "RunLocked": "errors",
    "RunWarning": "errors",
    "Samples": "datasets.dataset",
    "Schedule": "streams.stream",
    "Silent": "progress",
    "StorageFull": "errors",
    "Stream": "streams.stream",
    "Task": "streams.task",
    "TaskView": "streams.task",
    "Trial": "executor",
    "compare": "analysis.pairs",
    "learner_names": "learner",
    "load_stream": "streams.named_streams",
    "make_dataset": "datasets.dataset",
    "make_learner": "learner",
    "read_dataset": "datasets.readers",
    "run": "runner",
    "stream_names": "streams.rows",
    "write_report": "report.build",
}
__all__ = list(_HOMES)  # noqa: PLE0604

if not TYPE_CHECKING:  # to a type checker, a name that is not above is a mistake
    __getattr__, __dir__ = load_lazily(__name__, _HOMES)
