"""The worst mistakes of a predictor on one split: pictures and wrong answers, for people."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream import metrics
from nevis_stream.datasets.dataset import SINGLE_LABEL, Samples
from nevis_stream.run_directory.thumbnails import COUNT, strip
from nevis_stream.storage import write_file


def worst(
    labels: np.ndarray, kind: str, probabilities: np.ndarray
) -> tuple[list[tuple[int, dict[str, Any]]], int]:
    """Returns up to 12 wrong answers, the most confident first, and the number of all.

    Args:
      labels: int32[n] class ids, or uint8[n, labels] with 0 or 1.
      kind: "single_label" or "multi_label".
      probabilities: float32[n, classes].

    Returns:
      (index of the sample, facts) pairs: `true` and `predicted` (class ids; multi label: 0 or 1 of
      the sample's worst `label`), `confidence` (the probability given to the true value) and
      `predicted_confidence` (to the predicted one). Of samples with several wrong labels the label
      with the lowest confidence counts; of equal ones the first.
    """
    metric = metrics.for_kind(kind)
    correct = metric.per_sample(labels, probabilities)
    confidence = np.where(correct == 0, metric.confidence(labels, probabilities), np.inf)
    lowest = confidence if kind == SINGLE_LABEL else confidence.min(axis=1)
    wrong = np.flatnonzero(np.isfinite(lowest))
    mistakes: list[tuple[int, dict[str, Any]]] = []
    for i in wrong[np.argsort(lowest[wrong], kind="stable")[:COUNT]].tolist():
        if kind == SINGLE_LABEL:
            predicted = int(probabilities[i].argmax())
            facts = {"true": int(labels[i]), "predicted": predicted}
            other = probabilities[i, predicted]
        else:
            label = int(confidence[i].argmin())
            true = int(labels[i, label])
            facts = {"label": label, "true": true, "predicted": 1 - true}
            other = 1 - lowest[i]
        shown = {"confidence": lowest[i], "predicted_confidence": other}
        mistakes.append((i, facts | {name: round(float(p), 6) for name, p in shown.items()}))
    return mistakes, len(wrong)


def write(
    directory: Path,
    facts: Mapping[str, Any],
    samples: Samples,
    kind: str,
    probabilities: np.ndarray,
    class_names: Sequence[str] = (),
) -> None:
    """Writes TASK-mistakes.png (up to 12 pictures; none without a mistake) and TASK-mistakes.json.

    Args:
      directory: the run's thumbnails.
      facts: come first in the file: `task_id`, which names the files, `split`, `predictor_id`.
      samples: the split.
      kind: "single_label" or "multi_label".
      probabilities: float32[n, classes], the answers.
      class_names: empty where the classes have none.
    """
    mistakes, wrong = worst(samples.labels, kind, probabilities)
    named = [{"sample_id": str(samples.ids[i])} | _named(each, class_names) for i, each in mistakes]
    record = dict(facts) | {"kind": kind, "n": len(samples), "wrong": wrong, "mistakes": named}
    name = f"{facts['task_id']}-mistakes"
    if mistakes:
        write_file(directory / f"{name}.png", strip(samples.images, [i for i, _ in mistakes]))
    write_file(directory / f"{name}.json", json.dumps(record, indent=1, sort_keys=True).encode())


def _named(mistake: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Adds the names of a mistake's classes."""
    about = ("label",) if "label" in mistake else ("true", "predicted")
    return dict(mistake) | {f"{key}_name": names[mistake[key]] for key in about if names}
