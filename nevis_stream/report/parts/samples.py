"""Sample images of every task, and what learners got most wrong."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from nevis_stream.analysis.runs import Run
from nevis_stream.report import palette, svg
from nevis_stream.report.names import to_letters
from nevis_stream.report.run_files import (
    PITCH,
    Mistakes,
    decode_picture,
    find_thumbnail,
    read_mistakes,
)
from nevis_stream.report.section import ErrorRow, Section
from nevis_stream.report.svg import Drawing
from nevis_stream.report.templates import render

TITLE = "Training images and worst mistakes"
_TASKS_OF_SHEET = 5  # they fill a page of a paper
_WIDTH, _MARGIN, _PER_ROW = 8.4, 0.15, 12  # inches, inches, images
_CAPTION = (
    "First row of a task: training images. Below: worst mistakes of one run (n = 1, no bands) of a"
    " method, those whose true class got the lowest probability first, as true → predicted"
    " (probability of the predicted)."
)
_ROW, _HEADING, _LINE = 0.68, 0.21, 0.085  # inches: of images, of a line above them, of one below
_COLUMN = 14  # letters that fit below an image
# More would make a page of 106 tasks larger than 10 MB.
_MANY = 30  # tasks
_FEW_METHODS, _FEW_IMAGES = 2, 12  # for at most `_MANY` tasks
_MANY_METHODS, _MANY_IMAGES = 1, 6  # for more tasks


@dataclass(frozen=True)
class TaskImages:
    """One task's pictures: training images (a `data:` address or None) and the shown methods'
    mistakes, by label.
    """

    task: ErrorRow
    training: str | None
    mistakes: list[tuple[str, Mistakes]]

    @property
    def pictured(self) -> bool:
        """Whether there is anything to be seen."""
        return bool(self.training) or any(mistakes.picture for _, mistakes in self.mistakes)

    @property
    def heading(self) -> str:
        """The task with its year and domain."""
        return ", ".join(
            filter(None, (self.task.task_id, str(self.task.year or ""), self.task.domain))
        )


def html(section: Section) -> Markup:
    """Returns a row of training images per task, and a row of mistakes for each of the best one or
    two methods.
    """
    long_stream = len(section.tasks) > _MANY
    methods, most = (_MANY_METHODS, _MANY_IMAGES) if long_stream else (_FEW_METHODS, _FEW_IMAGES)
    shown = section.compute_once(_list_runs)[:methods]
    images = [
        (task, find_sheet(place))
        for place, task in enumerate(_list_images(section, shown, most, small=long_stream))
    ]
    seeds = [(label, run.header.seed) for label, run in shown]
    more = len(section.compute_once(_list_runs)) > len(shown)
    return render(
        "parts/samples.html",
        number=section.number,
        images=images,
        shown=seeds,
        most=most,
        more=more,
    )


def tables(section: Section) -> dict[str, pd.DataFrame]:
    """Returns `mistakes`: the worst mistakes of every run that kept them."""
    rows = []
    for run in section.runs:
        head = {name: getattr(run.header, name) for name in ("learner", "budget", "seed")} | {
            "run": run.name
        }
        for task in section.tasks:
            mistakes = read_mistakes(run, task.task_id, most=0)
            for rank, mistake in enumerate(mistakes.all if mistakes else (), start=1):
                facts = dict(sorted(mistake.to_json().items()))
                rows.append(head | {"task_id": task.task_id, "rank": rank} | facts)
    return {"mistakes": pd.DataFrame(rows)}


def figures(section: Section) -> dict[str, Drawing]:
    """Returns `samples_a`, `_b`, …: what the page shows, and what it leaves out for its size: 12
    mistakes, two methods.
    """
    return draw_sheets(
        _list_images(
            section, section.compute_once(_list_runs)[:_FEW_METHODS], _FEW_IMAGES, small=False
        )
    )


def _list_images(
    section: Section, shown: Sequence[tuple[str, Run]], most: int, small: bool
) -> list[TaskImages]:
    """Returns every task's pictures, with at most `most` mistakes of each of these runs; small ones
    have fewer colours.
    """
    images = []
    for task in section.tasks:
        mistakes_of = [(label, read_mistakes(run, task.task_id, most)) for label, run in shown]
        known = [(label, mistakes) for label, mistakes in mistakes_of if mistakes]
        images.append(TaskImages(task, find_thumbnail(task.task_id, section.runs, small), known))
    return images


def _list_runs(section: Section) -> list[tuple[str, Run]]:
    """Returns (label, first run with mistakes) of the methods, that with the lowest mean error
    first, those without a mean error last.
    """
    ranked = sorted(section.methods, key=lambda method: (method.error.n == 0, method.error.mean))
    runs = []
    for method in ranked:
        run = next(
            (
                run
                for run in method.group.runs
                if any((run.path / "thumbnails").glob("*-mistakes.json"))
            ),
            None,
        )
        runs += [(method.group.label, run)] if run else []
    return runs


def find_sheet(place: int) -> str:
    """Returns the name of the sheet that has the task of this place in the stream, from 0."""
    return f"samples_{to_letters(place // _TASKS_OF_SHEET)}"


def draw_sheets(images: Sequence[TaskImages]) -> dict[str, svg.Drawing]:
    """Returns figures of all tasks, by name; without the tasks that have no picture.

    Args:
      images: of every task of a section, in stream order.
    """
    by_sheet: dict[str, list[TaskImages]] = {}
    for place, task in enumerate(images):
        if task.pictured:
            by_sheet.setdefault(find_sheet(place), []).append(task)
    title = "Training images and worst mistakes"
    return {
        name: svg.Drawing(title, lambda shown=shown: _draw_sheet(shown), _CAPTION)
        for name, shown in by_sheet.items()
    }


def _draw_sheet(shown: Sequence[TaskImages]) -> Figure:
    top = height = sum(map(_measure_height, shown))
    figure = svg.make_figure(_WIDTH, height, layout=None)
    for task in shown:
        _write_text(figure, _MARGIN, top, task.heading, size=9, color=palette.ink())
        top -= _HEADING
        if task.training:
            _draw_row(figure, task.training, top)
            top -= _ROW
        for label, mistakes in task.mistakes:
            _write_text(
                figure,
                _MARGIN,
                top,
                f"{label}: {mistakes.wrong} of {mistakes.n} wrong",
                size=7,
                color=palette.muted(),
            )
            top -= _HEADING
            if mistakes.picture:
                _draw_row(figure, mistakes.picture, top)
                for place, words in enumerate(mistakes.captions[:_PER_ROW]):
                    left = _MARGIN + place * _measure_pitch()
                    _write_text(
                        figure,
                        left,
                        top - _ROW + 0.01,
                        "\n".join(_wrap_caption(words)),
                        size=4.8,
                        color=palette.ink(),
                    )
                top -= _ROW + _measure_captions(mistakes)
    return figure


def _measure_height(images: TaskImages) -> float:
    rows = [
        _HEADING + (_ROW + _measure_captions(mistakes) if mistakes.picture else 0)
        for _, mistakes in images.mistakes
    ]
    return _HEADING + (_ROW if images.training else 0) + sum(rows)


def _wrap_caption(words: str) -> list[str]:
    return textwrap.wrap(words, _COLUMN)[:4]


def _measure_captions(mistakes: Mistakes) -> float:
    """Returns the inches that captions and a gap take below their images."""
    return _LINE * max(len(_wrap_caption(words)) for words in mistakes.captions) + 0.12


def _measure_pitch() -> float:
    """Returns the inches from image to image."""
    return (_WIDTH - 2 * _MARGIN) / _PER_ROW


def _draw_row(figure: Figure, address: str, top: float) -> None:
    """Draws a row of images with its upper edge `top` inches above the figure's lower edge."""
    row = decode_picture(address)
    width, height = figure.get_size_inches()
    scale = _measure_pitch() / PITCH  # inches of a pixel
    across, up = row.shape[1] * scale, row.shape[0] * scale
    axes = figure.add_axes((_MARGIN / width, (top - up) / height, across / width, up / height))
    axes.imshow(row, interpolation="nearest", aspect="auto")
    axes.set_axis_off()


def _write_text(figure: Figure, left: float, top: float, text: str, **style) -> None:
    width, height = figure.get_size_inches()
    place = {"x": left / width, "y": top / height, "va": "top", "ha": "left"}
    with svg.allow_any_script():
        figure.text(s=text, parse_math=False, **place, **style)
