"""Predict events: what a task's kept predictors answer, checked, scored and recorded."""

from typing import Any

import numpy as np

from nevis_stream.datasets.dataset import Samples
from nevis_stream.run_directory import mistakes, outcomes
from nevis_stream.run_directory.records import (
    AnswerRecord,
    PredictRecord,
    TrainRecord,
    TrialRecord,
    event_name,
    tree_name,
)
from nevis_stream.runner.training import Training
from nevis_stream.runner.work import Work
from nevis_stream.streams.task import Event


def predict(work: Work, training: Training, number: int, event: Event) -> PredictRecord:
    """Answers one split with every kept predictor and returns the record.

    Args:
      work: the run.
      training: loads the predictors.
      number: of the event in the run.
      event: the split to predict.
    """
    task, samples = event.task, work.stream.splits(event.task)[event.split]
    trained = next(r for r in work.ledger.of_kind(TrainRecord) if r.task_id == task.task_id)
    kept = [trained.chosen_trial]
    if work.config.values["keep"] == "all":
        kept += [trial for trial in trained.trials if trial is not kept[0]]
    answers = [_answer(work, training, trained, trial, number, event, samples) for trial in kept]
    return PredictRecord(
        event=number,
        train_event=trained.event,
        order=task.order,
        task_id=task.task_id,
        split=event.split,
        n=len(samples),
        others=tuple(AnswerRecord(**answer) for answer in answers[1:]),
        **answers[0],
    )


def _answer(
    work: Work,
    training: Training,
    trained: TrainRecord,
    trial: TrialRecord,
    number: int,
    event: Event,
    samples: Samples,
) -> dict[str, Any]:
    """Returns what one predictor's answers add to the record, and writes its outcomes."""
    task = event.task
    ctx = work.context(
        task.task_id, "predict", f"trial {trial.trial}", phase="predict", trial=trial.trial
    )
    tree = training.load(trained.event, tree_name(trial.trial))
    answered = work.learner.predict(tree, samples.images, ctx)
    complaint = outcomes.complaint(answered, len(samples), task.kind, task.num_classes)
    if complaint:
        raise work.fault(task, f"predict {complaint}")
    probabilities = np.asarray(answered, np.float32)
    file = f"outcomes/{event_name(number, task.task_id)}-{event.split}-trial-{trial.trial:03d}.npz"
    scores = outcomes.write(work.path / file, samples, task.kind, probabilities)
    if trial.trial == trained.chosen:
        mistakes.write(
            work.path / "thumbnails",
            {
                "task_id": task.task_id,
                "split": event.split,
                "predictor_id": trial.predictor_id,
            },
            samples,
            task.kind,
            probabilities,
            work.stream.dataset(task).class_names,
        )
    return {
        "trial": trial.trial,
        "predictor_id": trial.predictor_id,
        "outcomes": file,
        "flops": ctx.meter.counts(),
    } | scores
