"""Outcomes of one predictor on each sample of a split, checked, scored and saved as arrays; and for
people to see: rows of a task's images, and the worst mistakes with their wrong answers.
"""

import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from PIL import Image

from nevis_stream import metrics
from nevis_stream.datasets.dataset import SINGLE_LABEL, Samples
from nevis_stream.datasets.images import Images
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import TrainRecord
from nevis_stream.storage import write_file
from nevis_stream.storage.reading import read_json
from nevis_stream.storage.record import Record, check_choice, check_object, check_unicode, number
from nevis_stream.storage.tables import name_files
from nevis_stream.vocabulary import SPLITS, TASK_KINDS


def find_fault(probabilities: Any, n: int, kind: str, classes: int) -> str | None:
    """Returns what is wrong with a learner's answer, or None.

    Args:
      probabilities: what `predict` returned; valid is float[n, classes], finite, in [0, 1], and in
        single-label tasks each row adds up to 1 within 1e-3.
      n: number of samples.
      kind: "single_label" or "multi_label".
      classes: number of classes or labels.
    """
    try:
        array = np.asarray(probabilities, np.float32)
    except (TypeError, ValueError) as error:
        return f"returned {type(probabilities).__name__}, not an array ({error})"
    if array.shape != (n, classes):
        return (
            f"returned shape {array.shape}; {n} samples of {classes} classes need ({n}, {classes})"
        )
    infinite = np.flatnonzero(~np.isfinite(array).all(axis=1))
    if len(infinite):
        return (
            f"returned a probability that is not finite for sample {infinite[0]}"
            f" ({len(infinite)} such samples)"
        )
    low, high = array.min(), array.max()
    if low < 0 or high > 1 + 1e-5:
        return f"returned values from {low:g} to {high:g}; probabilities are in [0, 1]"
    sums = array.sum(axis=1, dtype=np.float64)
    off = np.flatnonzero(abs(sums - 1) > 1e-3)
    if kind == SINGLE_LABEL and len(off):
        return f"returned probabilities of sample {off[0]} that add up to {sums[off[0]]:g}, not 1"
    return None


def write(path: Path, samples: Samples, kind: str, probabilities: np.ndarray) -> dict[str, Any]:
    """Writes outcomes; returns their `score`."""
    metric = metrics.find_metric(kind)
    with io.BytesIO() as buffer:
        np.savez_compressed(
            buffer,
            sample_id=np.asarray(samples.ids),
            target=samples.labels,
            correct=metric.per_sample(samples.labels, probabilities),
            confidence=metric.confidence(samples.labels, probabilities),
        )
        write_file(path, buffer.getvalue())
    return score(samples, kind, probabilities)


def score(samples: Samples, kind: str, probabilities: np.ndarray) -> dict[str, Any]:
    """Returns metric, value, error (and reason) for the ledger."""
    metric = metrics.find_metric(kind)
    value = float(metric.aggregate(samples.labels, probabilities))
    if math.isnan(value):
        reason = f"{metric.name} is undefined here"
        return {"metric": metric.name, "value": None, "error": None, "reason": reason}
    return {"metric": metric.name, "value": value, "error": float(metric.to_error(value))}


COUNT = 12
SIDE = 48
_GAP = 2


def name_thumbnails(ledger: Ledger, task_id: str) -> str:
    """Returns the beginning of the names of a task's files in a run's thumbnails."""
    trained = (record.task_id for record in ledger.of_kind(TrainRecord))
    return name_files([*trained, task_id], "-mistakes")[task_id]


def write_thumbnails(beginning: Path, images: Images) -> None:
    """Writes a PNG of up to 12 images, evenly spaced, unless the file exists."""
    path = beginning.with_name(f"{beginning.name}.png")
    if path.exists():
        return
    picked = np.unique(np.linspace(0, len(images) - 1, min(COUNT, len(images))).astype(int))
    write_file(path, strip(images, picked))


def strip(images: Images, picked: Sequence[int]) -> bytes:
    """Returns a PNG of the picked images in a row, each within 48x48 pixels."""
    row = Image.new("RGB", (len(picked) * (SIDE + _GAP) - _GAP, SIDE), "white")
    for position, index in enumerate(picked):
        image = Image.fromarray(images[index])
        image = image.resize(_fit(image.size), Image.Resampling.BICUBIC)
        left = position * (SIDE + _GAP) + (SIDE - image.width) // 2
        row.paste(image, (left, (SIDE - image.height) // 2))
    with io.BytesIO() as buffer:
        row.save(buffer, "PNG", compress_level=1)  # a tenth larger, in a third of the time
        return buffer.getvalue()


def _fit(size: tuple[int, int]) -> tuple[int, int]:
    scale = SIDE / max(size)
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


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
    split: Annotated[str, check_choice("split", SPLITS)]
    predictor_id: str
    kind: Annotated[str, check_choice("kind", TASK_KINDS)]
    n: int
    wrong: int
    mistakes: tuple[Mistake, ...]


def find_worst(
    samples: Samples, kind: str, probabilities: np.ndarray, class_names: Sequence[str] = ()
) -> tuple[list[tuple[int, Mistake]], int]:
    """Returns up to 12 wrong answers, those with the least probability of the true value first,
    and the number of all.

    In a multi-label task a sample is ranked by its wrong label with the least such probability; of
    equal ones the first counts.

    Args:
      samples: the split.
      kind: "single_label" or "multi_label".
      probabilities: float32[n, classes], the answers.
      class_names: empty if the classes have none.

    Returns:
      (index of the sample, mistake) pairs, and the number of samples answered wrongly.
    """
    labels, metric = samples.labels, metrics.find_metric(kind)
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


def write_mistakes(
    beginning: Path,
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
      beginning: the path of both files up to "-mistakes".
      task_id, split, predictor_id: what was answered, and by what.
      samples, kind, probabilities, class_names: as for `find_worst`.
    """
    mistakes, wrong = find_worst(samples, kind, probabilities, class_names)
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
        write_file(beginning.with_name(f"{beginning.name}-mistakes.png"), image)
    text = json.dumps(record.to_json(), indent=1, sort_keys=True)
    write_file(beginning.with_name(f"{beginning.name}-mistakes.json"), text.encode())


def read_mistakes(file: Path) -> TaskMistakes:
    """Reads TASK-mistakes.json.

    Raises:
      OSError: it cannot be read.
      ValueError: it is damaged; the message says where.
    """
    try:
        values = check_object(read_json(file))
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    check_unicode(values)
    return TaskMistakes.from_json(values)
