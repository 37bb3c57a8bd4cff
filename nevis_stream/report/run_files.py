"""What a report reads of a run directory besides the ledger: environment, overlaps, thumbnails and
worst mistakes (docs/run-directory.md). What cannot be read is not shown.
"""

import base64
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from nevis_stream.analysis.own_files import read_own_file
from nevis_stream.analysis.runs import Run
from nevis_stream.run_directory import environment as environment_file
from nevis_stream.run_directory import outcomes as mistakes_file
from nevis_stream.run_directory.outcomes import Mistake
from nevis_stream.storage.reading import read_bytes
from nevis_stream.storage.tables import parse_csv

_PNG = b"\x89PNG\r\n\x1a\n"
# pixels from image to image in a row, of which 2 are between them: see run_directory/thumbnails.py
PITCH, _GAP = 50, 2
_COLOURS = 128  # the difference is not visible in images this small
_OVERLAP_COLUMNS = ["task_id", "split", "earlier", "exact", "near", "samples"]
_LARGEST_TABLE = 2**22  # bytes; a stream of 106 tasks has at most 500,000
_LARGEST_THUMBNAIL = 512 * 1024  # bytes; a strip of 12 images of 48 pixels has about 30,000


def collect_environment(runs: Sequence[Run]) -> list[tuple[str, str]]:
    """Returns (fact, value) of environment.jsonl over all runs; where values differ, all with
    counts.

    A run without the file, or without a readable line, is counted under the fact "not recorded".
    """
    facts: dict[str, Counter[str]] = {}
    unrecorded = 0
    for run in runs:
        recorded = _collect_facts(run)
        unrecorded += not recorded
        for name, values in recorded.items():
            facts.setdefault(name, Counter()).update(values)
    rows = [(name, _format_counts(counts, len(runs))) for name, counts in sorted(facts.items())]
    return rows + ([("not recorded", f"{unrecorded} of {len(runs)} runs")] if unrecorded else [])


def collect_readings(runs: Sequence[Run]) -> dict[str, list[str]]:
    """Returns, by dataset_id, sentences on what the files of a data set were understood as, from
    the first run that recorded them.
    """
    found: dict[str, list[str]] = {}
    for run in runs:
        read = read_own_file(
            run.path, environment_file.READINGS_FILE, environment_file.read_readings, run.unread
        )
        found = {name: each.texts for name, each in (read or {}).items()} | found
    return found


def read_overlaps(runs: Sequence[Run]) -> list[dict[str, str]]:
    """Returns the rows of the first readable overlap.csv: task_id, split, earlier, exact, near,
    samples (docs/run-directory.md).
    """
    for run in runs:
        if (
            rows := read_own_file(run.path, "overlap.csv", _parse_overlaps, run.unread)
        ) is not None:
            return rows
    return []


def _parse_overlaps(file: Path) -> list[dict[str, str]] | None:
    """Returns the rows of overlap.csv; None if another version wrote it, with other columns."""
    rows = parse_csv(read_bytes(file, _LARGEST_TABLE).decode())
    return None if rows and list(rows[0]) != _OVERLAP_COLUMNS else rows


def find_thumbnail(task_id: str, runs: Sequence[Run], small: bool = False) -> str | None:
    """Returns a task's row of images as a `data:` address, from the first run that has one.

    Args:
      task_id: the task.
      runs: where to look.
      small: with 128 colours, which takes fewer bytes.
    """
    files = ((run, f"{mistakes_file.name_thumbnails(run.ledger, task_id)}.png") for run in runs)
    pictures = (encode_picture(run, file, small=small) for run, file in files)
    return next(filter(None, pictures), None)


def encode_picture(run: Run, name: str, count: int | None = None, small: bool = True) -> str | None:
    """Returns a PNG with a row of images as a `data:` address, or None if it cannot be read.

    Args:
      run: the run.
      name: of the file in its thumbnails.
      count: how many of its images, from the left; None: all.
      small: with 128 colours, which takes fewer bytes.
    """

    def read(path: Path) -> str:
        data = read_bytes(path, _LARGEST_THUMBNAIL)
        if not data.startswith(_PNG):
            raise ValueError("is not a PNG image")
        cut = _cut(data, count)  # made in any case: it shows that the file is whole
        shown = cut if small or count else data
        return "data:image/png;base64," + base64.b64encode(shown).decode()

    return read_own_file(run.path, f"thumbnails/{name}", read, run.unread)


def _cut(data: bytes, count: int | None) -> bytes:
    """Returns a PNG's first images, None: all, with 128 colours."""
    try:
        with Image.open(io.BytesIO(data), formats=["PNG"]) as row, io.BytesIO() as buffer:
            width = min(row.width, PITCH * count - _GAP) if count else row.width
            cut = row.convert("RGB").crop((0, 0, width, row.height))
            # median cut is far slower
            cut.quantize(_COLOURS, Image.Quantize.FASTOCTREE).save(buffer, "PNG")
            return buffer.getvalue()
    except (SyntaxError, Image.DecompressionBombError) as error:  # SyntaxError: a broken PNG
        raise ValueError(f"is damaged: {error}") from None


def decode_picture(address: str) -> np.ndarray:
    """Returns the picture in a `data:` address as uint8[height, width, 3]."""
    with Image.open(
        io.BytesIO(base64.b64decode(address.partition(",")[2])), formats=["PNG"]
    ) as image:
        return np.asarray(image.convert("RGB"))


def _collect_facts(run: Run) -> dict[str, set[str]]:
    """Returns the distinct values of each fact over the processes of one run."""
    facts: dict[str, set[str]] = {}
    name, read = environment_file.FILE_NAME, environment_file.read
    for process in read_own_file(run.path, name, read, run.unread) or ():
        for name, value in process.items():
            facts.setdefault(name, set()).add(_format_value(value))
    return facts


def _format_value(value: Any) -> str:
    if isinstance(value, list):
        counts = Counter(map(str, value))
        return ", ".join(f"{count} × {name}" for name, count in counts.items()) or "none"
    return str(value)


def _format_counts(counts: Counter[str], runs: int) -> str:
    if len(counts) == 1 and counts.total() == runs:
        return next(iter(counts))
    return "; ".join(f"{value} ({count} of {runs} runs)" for value, count in sorted(counts.items()))


@dataclass(frozen=True)
class Mistakes:
    """The worst mistakes on one split.

    Attributes:
      picture: the first of them in a row as a `data:` address; empty without one.
      captions: one text for each mistake in the picture: what is true → what was predicted (with
        which probability).
      listed: the captions with the names of the files.
      all: the recorded mistakes: those in the picture and the others.
      wrong, n: numbers of samples that were answered wrongly, and of all samples.
      split: whose samples these are.
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
    name = f"{mistakes_file.name_thumbnails(run.ledger, task_id)}-mistakes"
    file = f"thumbnails/{name}.json"
    record = read_own_file(run.path, file, mistakes_file.read_mistakes, run.unread)
    if record is None:
        return None
    shown = record.mistakes[:most]
    captions = [_make_caption(mistake) for mistake in shown]
    row = encode_picture(run, f"{name}.png", len(captions)) if captions else None
    names = [_make_listing(mistake) for mistake in shown]
    return Mistakes(
        row or "", captions, names, record.mistakes, record.wrong, record.n, record.split
    )


def _make_listing(mistake: Mistake) -> str:
    """Returns a mistake's caption, with the name of the image's file, if that is known."""
    return _make_caption(mistake) + (f": {mistake.file_name}" if mistake.file_name else "")


def _make_caption(mistake: Mistake) -> str:
    confidence = f"({mistake.predicted_confidence:.2f})"
    if mistake.label is not None:
        name = mistake.label_name or f"label {mistake.label}"
        true, predicted = ("present" if x else "absent" for x in (mistake.true, mistake.predicted))
        return f"{name}: {true} → {predicted} {confidence}"
    true, predicted = mistake.true_name or mistake.true, mistake.predicted_name or mistake.predicted
    return f"{true} → {predicted} {confidence}"
