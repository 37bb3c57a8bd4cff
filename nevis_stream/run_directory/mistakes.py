"""The worst mistakes of a predictor on one split: images and wrong answers, for people to see."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np

from nevis_stream import metrics
from nevis_stream.datasets.dataset import SINGLE_LABEL, Samples
from nevis_stream.run_directory.thumbnails import COUNT, strip
from nevis_stream.storage import write_file
from nevis_stream.storage.checks import check_unicode, choice, json_object, number
from nevis_stream.storage.reading import read_json
from nevis_stream.storage.record import Record
from nevis_stream.vocabulary import SPLITS, TASK_KINDS

Probability = Annotated[float, number(-1e-3, 1 + 1e-3)]  # float32 probabilities are rounded


@dataclass(frozen=True, kw_only=True)
class Mistake(Record):
    """A wrong answer.

    Attributes:
      sample_id: the sample.
      true, predicted: class ids; in a multi-label task 0 or 1 of the sample's worst `label`.
      confidence: the probability given to the true value.
      predicted_confidence: the probability given to the predicted value.
      label: the worst label in a multi-label task, else None.
      true_name, predicted_name, label_name: names of the classes, if the data set has them.
      file_name: of the image, if it has one.
    """

    sample_id: str
    true: int
    predicted: int
    confidence: Probability
    predicted_confidence: Probability
    label: int | None = None
    true_name: str | None = None
    predicted_name: str | None = None
    label_name: str | None = None
    file_name: str | None = None


@dataclass(frozen=True, kw_only=True)
class TaskMistakes(Record):
    """The worst mistakes on a task's split: of `n` samples `wrong` were answered wrongly; in a
    multi-label task, those with any wrong label.
    """

    task_id: str
    split: Annotated[str, choice("split", SPLITS)]
    predictor_id: str
    kind: Annotated[str, choice("kind", TASK_KINDS)]
    n: int
    wrong: int
    mistakes: tuple[Mistake, ...]


def worst(
    samples: Samples, kind: str, probabilities: np.ndarray, class_names: Sequence[str] = ()
) -> tuple[list[tuple[int, Mistake]], int]:
    """Returns up to 12 wrong answers, the most confident first, and the number of all.

    In a multi-label task a sample is ranked by the wrong label with the lowest confidence; of equal
    ones the first counts.

    Args:
      samples: the split.
      kind: "single_label" or "multi_label".
      probabilities: float32[n, classes], the answers.
      class_names: empty if the classes have none.

    Returns:
      (index of the sample, mistake) pairs, and the number of samples answered wrongly.
    """
    labels, metric = samples.labels, metrics.for_kind(kind)
    correct = metric.per_sample(labels, probabilities)
    confidence = np.where(correct == 0, metric.confidence(labels, probabilities), np.inf)
    lowest = confidence if kind == SINGLE_LABEL else confidence.min(axis=1)
    wrong = np.flatnonzero(np.isfinite(lowest))
    mistakes = []
    for i in wrong[np.argsort(lowest[wrong], kind="stable")[:COUNT]].tolist():
        if kind == SINGLE_LABEL:
            label, true, predicted = None, int(labels[i]), int(probabilities[i].argmax())
            other, named = probabilities[i, predicted], {"true": true, "predicted": predicted}
        else:
            label = int(confidence[i].argmin())
            true, predicted = int(labels[i, label]), 1 - int(labels[i, label])
            other, named = 1 - lowest[i], {"label": label}
        mistake = Mistake(
            sample_id=str(samples.ids[i]),
            true=true,
            predicted=predicted,
            confidence=round(float(lowest[i]), 6),
            predicted_confidence=round(float(other), 6),
            label=label,
            file_name=samples.names[i] if len(samples.names) else None,
            **{f"{name}_name": class_names[place] for name, place in named.items() if class_names},
        )
        mistakes.append((i, mistake))
    return mistakes, len(wrong)


def write(
    directory: Path,
    task_id: str,
    split: str,
    predictor_id: str,
    samples: Samples,
    kind: str,
    probabilities: np.ndarray,
    class_names: Sequence[str] = (),
) -> None:
    """Writes TASK-mistakes.png (up to 12 images; none without a mistake) and TASK-mistakes.json.

    Args:
      directory: the run's thumbnails.
      task_id, split, predictor_id: what was answered, and by what.
      samples, kind, probabilities, class_names: as for `worst`.
    """
    mistakes, wrong = worst(samples, kind, probabilities, class_names)
    record = TaskMistakes(
        task_id=task_id,
        split=split,
        predictor_id=predictor_id,
        kind=kind,
        n=len(samples),
        wrong=wrong,
        mistakes=tuple(mistake for _, mistake in mistakes),
    )
    if mistakes:
        image = strip(samples.images, [i for i, _ in mistakes])
        write_file(directory / f"{task_id}-mistakes.png", image)
    text = json.dumps(record.to_json(), indent=1, sort_keys=True)
    write_file(directory / f"{task_id}-mistakes.json", text.encode())


def read(file: Path) -> TaskMistakes:
    """Reads TASK-mistakes.json.

    Raises:
      OSError: it cannot be read.
      ValueError: it is damaged; the message says where.
    """
    try:
        values = json_object(read_json(file))
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    check_unicode(values)
    return TaskMistakes.from_json(values)
