"""Predict events: the answers of a task's kept predictors are checked, scored and recorded."""

import numpy as np

from nevis_stream.datasets.dataset import Samples
from nevis_stream.run_directory import outcomes
from nevis_stream.run_directory.records import (
    AnswerRecord,
    PredictRecord,
    TrainRecord,
    TrialRecord,
    event_name,
    tree_name,
)
from nevis_stream.runner.training import TrainEvents
from nevis_stream.runner.work import Work
from nevis_stream.streams.task import Event, Task
from nevis_stream.vocabulary import POOL


def predict(
    work: Work, training: TrainEvents, number: int, event: Event, split: str
) -> PredictRecord:
    """Answers one split with every kept predictor and returns the record.

    Args:
      work: the run.
      training: loads the predictors.
      number: of the event in the run.
      event, split: what is predicted.
    """
    task, samples = event.task, work.stream.splits_of(event)[split]
    trained = next(r for r in work.ledger.of_kind(TrainRecord) if r.task_id == task.task_id)
    trials = sorted(trained.trials, key=lambda trial: trial.trial != trained.chosen)
    if work.config.values["keep"] != "all":
        trials = trials[:1]  # the chosen one
    name = f"outcomes/{event_name(number, task.task_id)}-{split}"
    answers = []
    for trial in trials:
        file = f"{name}-trial-{trial.trial:03d}.npz"
        answer, probabilities = _answer(work, training, trained, trial, task, samples, file)
        answers.append(answer)
        if trial is trials[0] and split != POOL:
            outcomes.write_mistakes(
                work.path / "thumbnails",
                task.task_id,
                split,
                trial.predictor_id,
                samples,
                task.kind,
                probabilities,
                work.stream.dataset(task).class_names,
            )
    return PredictRecord(
        event=number,
        train_event=trained.event,
        order=task.order,
        task_id=task.task_id,
        split=split,
        n=len(samples),
        others=tuple(answers[1:]),
        **vars(answers[0]),
    )


def _answer(
    work: Work,
    training: TrainEvents,
    trained: TrainRecord,
    trial: TrialRecord,
    task: Task,
    samples: Samples,
    file: str,
) -> tuple[AnswerRecord, np.ndarray]:
    """Asks one predictor and writes its outcomes; returns its record and float32[n, classes]."""
    ctx = work.context(
        task.task_id, "predict", f"trial {trial.trial}", phase="predict", trial=trial.trial
    )
    tree = training.load(trained.event, tree_name(trial.trial))
    answered = work.learner.predict(tree, samples.images, ctx)
    complaint = outcomes.find_fault(answered, len(samples), task.kind, task.num_classes)
    if complaint:
        raise work.fault(task, f"predict {complaint}")
    probabilities = np.asarray(answered, np.float32)
    scores = outcomes.write(work.path / file, samples, task.kind, probabilities)
    record = AnswerRecord(
        trial=trial.trial,
        predictor_id=trial.predictor_id,
        outcomes=file,
        flops=ctx.meter.counts(),
        **scores,
    )
    return record, probabilities
