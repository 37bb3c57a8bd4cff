"""What a person labels with: a csv file, a contact sheet, and a page for a browser; and the csv
files that come back.
"""

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from nevis_stream.active_testing.labelling.files import UNKNOWN
from nevis_stream.active_testing.labelling.session import Session
from nevis_stream.datasets.images import Images
from nevis_stream.errors import BadInput, plural, unknown
from nevis_stream.queries.oracle import NO_LABEL
from nevis_stream.report.templates import read_resource, render_page
from nevis_stream.storage import write_file
from nevis_stream.storage.tables import (
    format_csv,
    normalise_name,
    parse_whole,
    read_table,
    shorten,
    unquote,
)

CSV, PAGE, CONTACTS = "to_label.csv", "label.html", "contact_sheet.png"
NOBODY_CAN_TELL = frozenset({UNKNOWN, "unknown", "nan", "none", "null", "na", "n/a", "255"})
"""What stands for no label in a csv, in small letters, where no class is called so."""
_SHOWN = 384  # pixels, the longest side of an image in the page
_SMALL = 96  # images with shorter sides are enlarged without smoothing
_CELL, _CAPTION, _PER_ROW = 96, 14, 10


@dataclass(frozen=True)
class Labels:
    """The labels of a file.

    Attributes:
      classes: number of the class of each sample, by id; `NO_LABEL` where nobody can tell.
      lines: where each sample is, for messages.
      unnamed: whether the file names no session.
    """

    classes: Mapping[str, int]
    lines: Mapping[str, str]
    unnamed: bool = False


def write_round(session: Session, number: int, rows: Sequence[int], images: Images) -> Path:
    """Writes the files of a round and returns their folder.

    Args:
      session: a session.
      number: of the round.
      rows: positions of the samples.
      images: those of these samples, in their order.

    Raises:
      BadInput: the csv file of this round contains labels that are not recorded yet.
    """
    folder = session.directory / "rounds" / f"{number:03d}"
    _check_nothing_waits(session, folder / CSV)
    ids = [session.ids[row] for row in rows]
    write_file(folder / CSV, _csv(session, ids))
    write_file(folder / CONTACTS, draw_contact_sheet([images[i] for i in range(len(images))]))
    write_file(folder / PAGE, _page(session, number, ids, images).encode())
    return folder


def _check_nothing_waits(session, file: Path) -> None:
    """Refuses to write over labels that a person typed and that are not recorded as they are."""
    if not file.exists():
        return
    known = session.labels()
    typed = read_labels(session, file).classes
    new = [sample for sample in typed if known.get(session.positions.get(sample)) != typed[sample]]
    if new:
        raise BadInput(
            f"{file}: contains {plural(len(new), 'label')} that {'is' if len(new) == 1 else 'are'}"
            f" not recorded yet, for example of {new[0]!r}. Record the file first, or delete it."
        )


def _csv(session, ids) -> bytes:
    rows = ([session.settings.name, number, each, ""] for number, each in enumerate(ids, start=1))
    return format_csv(["session", "number", "sample", "label"], rows).encode()


def _page(session, number, ids, images) -> str:
    file = f"labels-{session.settings.name}-{number:03d}.csv"
    samples = []
    for sample, image in zip(ids, images, strict=True):
        small = max(image.shape[:2]) <= _SMALL
        samples.append({"id": sample, "picture": _address(image), "small": small})
    data = {
        "session": session.settings.name,
        "file": file,
        "classes": list(session.settings.classes),
        "unknown": "" if UNKNOWN in session.settings.classes else UNKNOWN,
        "samples": samples,
    }
    return render_page(
        "label_page.html",
        read_resource("label_page.js"),
        session=session.settings.name,
        round=number,
        file=file,
        samples=samples,
        data=data,
    )


def _address(image: np.ndarray) -> str:
    picture = Image.fromarray(image)
    picture.thumbnail((_SHOWN, _SHOWN))
    with io.BytesIO() as buffer:
        picture.save(buffer, "PNG")
        return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def draw_contact_sheet(images: Sequence[np.ndarray], captions: Sequence[str] = ()) -> bytes:
    """Returns a PNG of images in rows of ten, each with a caption: its number, if none is given."""
    captions = captions or [str(number) for number in range(1, len(images) + 1)]
    rows = -(-len(images) // _PER_ROW)
    wide = min(len(images), _PER_ROW)
    sheet = Image.new("RGB", (wide * _CELL, rows * (_CELL + _CAPTION)), "white")
    draw = ImageDraw.Draw(sheet)
    for place, (image, caption) in enumerate(zip(images, captions, strict=True)):
        left, top = place % _PER_ROW * _CELL, place // _PER_ROW * (_CELL + _CAPTION)
        picture = Image.fromarray(image)
        scale = (_CELL - 4) / max(picture.size)
        size = tuple(max(1, round(side * scale)) for side in picture.size)
        smooth = Image.Resampling.NEAREST if scale > 1 else Image.Resampling.BICUBIC
        sheet.paste(picture.resize(size, smooth), (left + 2, top + 2))
        draw.text((left + 2, top + _CELL), caption[:15], fill="black")
    with io.BytesIO() as buffer:
        sheet.save(buffer, "PNG")
        return buffer.getvalue()


def read_labels(session: Session, file: Path) -> Labels:
    """Returns the labels of a csv file with the columns `sample` and `label`, and `session`, if it
    has one. Rows without a label are left out.

    Raises:
      BadInput: the file cannot be read, is of another session, or has an unknown label or two
        labels of a sample; the message names the line.
    """
    needed = {"sample": "", "label": ""}
    table = read_table(file, str(file), needed, ["session", "number"])
    classes = [normalise_name(name) for name in session.settings.classes]
    by_form = {normalise_name(sample): sample for sample in session.ids}
    answers, at = {}, {}
    for line, cells in table.rows:
        where = table.place(line)
        row = dict(zip(table.columns, cells, strict=True))
        label, sample = unquote(row["label"].strip()), unquote(row["sample"])
        sample = by_form.get(normalise_name(sample), sample)
        owner = row.get("session", "").strip() or session.settings.name
        if owner != session.settings.name:
            raise BadInput(
                f"{where}: is of session {shorten(owner)!r}, but {session.directory} is"
                f" {session.settings.name!r}. Nothing of this file was recorded."
            )
        if not label:
            continue
        number = _class(label, classes)
        if number is None and label.lower() in NOBODY_CAN_TELL:
            number = NO_LABEL
        if number is None:
            raise BadInput(
                f"{where}: {unknown('label', shorten(label), classes)} Where nobody can tell, type"
                f" {UNKNOWN!r}. Nothing of this file was recorded."
            )
        if answers.setdefault(sample, number) != number:
            raise BadInput(
                f"{where}: sample {shorten(sample)!r} is {label!r} here, but"
                f" {session.settings.class_name(answers[sample])!r} on an earlier line. Nothing of"
                " this file was recorded."
            )
        at.setdefault(sample, where)
    return Labels(answers, at, unnamed="session" not in table.columns)


def _class(label: str, classes: Sequence[str]) -> int | None:
    """Returns the number of a class, by its name, or by its number if no class is called so."""
    if normalise_name(label) in classes:
        return classes.index(normalise_name(label))
    number, named = parse_whole(label), [parse_whole(name) for name in classes]
    if any(
        each is not None for each in named
    ):  # where classes are called by numbers, 07 means the class 7
        return named.index(number) if number is not None and named.count(number) == 1 else None
    return number if number is not None and 0 <= number < len(classes) else None
