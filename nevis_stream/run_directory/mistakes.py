"""The worst mistakes of a predictor on one split: pictures, and what was answered instead, for
people who look at a run.
"""

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
    """Returns up to 12 wrongly answered samples, the most confidently wrong first, and how many are
    wrong in all.

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
    correct, confidence = (
        metric.per_sample(labels, probabilities),
        metric.confidence(labels, probabilities),
    )
    if kind == SINGLE_LABEL:
        lowest = np.where(correct == 0, confidence, np.inf)
    else:
        of_wrong = np.where(correct == 0, confidence, np.inf)
        label = of_wrong.argmin(axis=1)
        lowest = of_wrong.min(axis=1)
    wrong = np.flatnonzero(np.isfinite(lowest))
    picked = wrong[np.argsort(lowest[wrong], kind="stable")[:COUNT]]
    found = []
    for i in picked.tolist():
        if kind == SINGLE_LABEL:
            predicted = int(probabilities[i].argmax())
            facts = {
                "true": int(labels[i]),
                "predicted": predicted,
                "predicted_confidence": probabilities[i, predicted],
            }
        else:
            true = int(labels[i, label[i]])
            facts = {
                "label": int(label[i]),
                "true": true,
                "predicted": 1 - true,
                "predicted_confidence": 1 - lowest[i],
            }
        facts |= {"confidence": lowest[i]}
        rounded = {
            name: round(float(facts[name]), 6) for name in ("confidence", "predicted_confidence")
        }
        found.append((i, facts | rounded))
    return found, len(wrong)


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
      facts: written in front: `task_id`, which names the files, `split`, `predictor_id`.
      samples: what was asked.
      kind: "single_label" or "multi_label".
      probabilities: float32[n, classes], the answers.
      class_names: of the classes, where they have names.
    """
    found, wrong = worst(samples.labels, kind, probabilities)
    told = [
        {"sample_id": str(samples.ids[i])} | _named(mistake, class_names) for i, mistake in found
    ]
    record = dict(facts) | {"kind": kind, "n": len(samples), "wrong": wrong, "mistakes": told}
    name = f"{facts['task_id']}-mistakes"
    if found:
        write_file(directory / f"{name}.png", strip(samples.images, [i for i, _ in found]))
    write_file(directory / f"{name}.json", json.dumps(record, indent=1, sort_keys=True).encode())


def _named(mistake: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Adds the names of the classes that a mistake speaks of."""
    about = ("label",) if "label" in mistake else ("true", "predicted")
    return dict(mistake) | {f"{key}_name": names[mistake[key]] for key in about if names}
