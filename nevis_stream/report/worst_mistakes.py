"""A run's worst mistakes on a task, as its directory has them (docs/run-directory.md). What can't
be read is not shown.
"""

from dataclasses import dataclass

from nevis_stream.analysis.own_files import read_own_file
from nevis_stream.analysis.runs import Run
from nevis_stream.report.run_files import is_file_name, picture
from nevis_stream.run_directory import outcomes as mistakes_file
from nevis_stream.run_directory.outcomes import Mistake


@dataclass(frozen=True)
class Mistakes:
    """The worst mistakes on one split.

    Attributes:
      picture: the first of them in a row as a `data:` address; empty without one.
      captions: one text for each mistake in the picture: what is true → what was predicted (with
        which probability).
      listed: the captions with the names of the files.
      all: those in the picture and the others.
      wrong, n: samples that were answered wrongly, and samples asked.
      split: the split.
    """

    picture: str
    captions: list[str]
    listed: list[str]
    all: tuple[Mistake, ...]
    wrong: int
    n: int
    split: str


def read_mistakes(run: Run, task_id: str, most: int) -> Mistakes | None:
    """Returns a run's worst mistakes on a task, or None if the run has none that can be read.

    Args:
      run: the run.
      task_id: the task.
      most: how many mistakes are shown.
    """
    if not is_file_name(task_id):
        return None
    name = f"{task_id}-mistakes"
    file = f"thumbnails/{name}.json"
    record = read_own_file(run.path, file, mistakes_file.read_mistakes, run.unread)
    if record is None:
        return None
    shown = record.mistakes[:most]
    captions = [_caption(mistake) for mistake in shown]
    row = picture(run, f"{name}.png", len(captions)) if captions else None
    names = [_list(mistake) for mistake in shown]
    return Mistakes(
        row or "", captions, names, record.mistakes, record.wrong, record.n, record.split
    )


def _list(mistake: Mistake) -> str:
    """Returns a mistake's caption, with the name of the image's file, if that is known."""
    return _caption(mistake) + (f": {mistake.file_name}" if mistake.file_name else "")


def _caption(mistake: Mistake) -> str:
    confidence = f"({mistake.predicted_confidence:.2f})"
    if mistake.label is not None:
        name = mistake.label_name or f"label {mistake.label}"
        true, predicted = ("present" if x else "absent" for x in (mistake.true, mistake.predicted))
        return f"{name}: {true} → {predicted} {confidence}"
    true, predicted = mistake.true_name or mistake.true, mistake.predicted_name or mistake.predicted
    return f"{true} → {predicted} {confidence}"
