"""A run's worst mistakes on a task, as its directory has them (docs/run-directory.md). What can't
be read is not shown.
"""

import json
from dataclasses import dataclass
from typing import Any

from nevis_stream.analysis.own_files import own_file
from nevis_stream.analysis.runs import Run
from nevis_stream.errors import BadInput
from nevis_stream.report.run_files import is_file_name, picture


@dataclass(frozen=True)
class Mistakes:
    """The worst mistakes on one split.

    Attributes:
      picture: the first of them side by side as a `data:` address; empty without one.
      shown: how many the picture has.
      all: one dict a mistake: sample_id, true, predicted, confidence, predicted_confidence, and
        what else is known.
      wrong, n: samples that were answered wrongly, and samples asked.
      split: the split.
    """

    picture: str
    shown: int
    all: tuple[dict[str, Any], ...]
    wrong: int
    n: int
    split: str

    @property
    def captions(self) -> list[str]:
        """One text a shown mistake: what is true → what was predicted (with which probability)."""
        return [_caption(mistake) for mistake in self.all[: self.shown]]


def read_mistakes(run: Run, task_id: str, most: int) -> Mistakes | None:
    """Returns a run's worst mistakes on a task, or None where it has not kept any that can be read.

    Args:
      run: the run.
      task_id: the task.
      most: how many images the picture may have; the facts are those of all.
    """
    if not is_file_name(task_id):
        return None
    name = f"{task_id}-mistakes"
    try:
        path = own_file(run.path, f"thumbnails/{name}.json")
        record = json.loads(path.read_text(encoding="utf-8"))
        mistakes = tuple(dict(mistake) for mistake in record["mistakes"])
        for mistake in mistakes:
            _caption(mistake).encode()
        counts = int(record["wrong"]), int(record["n"])
        split = str(record["split"])
    except (BadInput, OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    shown = min(most, len(mistakes))
    row = picture(run, f"{name}.png", shown) if shown else None
    return Mistakes(row or "", shown, mistakes, *counts, split)


def _caption(mistake: dict[str, Any]) -> str:
    confidence = f"({float(mistake['predicted_confidence']):.2f})"
    if "label" in mistake:
        name = mistake.get("label_name", f"label {mistake['label']}")
        true, predicted = ("present" if mistake[key] else "absent" for key in ("true", "predicted"))
        return f"{name}: {true} → {predicted} {confidence}"
    true, predicted = (mistake.get(f"{key}_name", mistake[key]) for key in ("true", "predicted"))
    return f"{true} → {predicted} {confidence}"
