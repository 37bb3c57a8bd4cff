"""Sample images of every task, and what learners got most wrong."""

from collections.abc import Sequence

import pandas as pd
from markupsafe import Markup

from nevis_stream.analysis.runs import Run
from nevis_stream.report.run_files import thumbnail
from nevis_stream.report.sample_sheets import TaskImages, sheet_of, sheets
from nevis_stream.report.section import Section
from nevis_stream.report.svg import Drawing
from nevis_stream.report.templates import render
from nevis_stream.report.worst_mistakes import read_mistakes

TITLE = "Training images and worst mistakes"
# More would make a page of 106 tasks larger than 10 MB.
_MANY = 30  # tasks
_FEW_METHODS, _FEW_IMAGES = 2, 12  # for at most `_MANY` tasks
_MANY_METHODS, _MANY_IMAGES = 1, 6  # for more tasks


def html(section: Section) -> Markup:
    """Returns a row of training images per task, and a row of mistakes for each of the best one or
    two methods.
    """
    long_stream = len(section.tasks) > _MANY
    methods, most = (_MANY_METHODS, _MANY_IMAGES) if long_stream else (_FEW_METHODS, _FEW_IMAGES)
    shown = section.once(_with_mistakes)[:methods]
    images = [
        (task, sheet_of(place))
        for place, task in enumerate(_images(section, shown, most, small=long_stream))
    ]
    seeds = [(label, run.header.seed) for label, run in shown]
    more = len(section.once(_with_mistakes)) > len(shown)
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
    return sheets(
        _images(section, section.once(_with_mistakes)[:_FEW_METHODS], _FEW_IMAGES, small=False)
    )


def _images(
    section: Section, shown: Sequence[tuple[str, Run]], most: int, small: bool
) -> list[TaskImages]:
    """Every task's pictures, those of mistakes by these runs; small ones have fewer colours."""
    images = []
    for task in section.tasks:
        mistakes_of = [(label, read_mistakes(run, task.task_id, most)) for label, run in shown]
        known = [(label, mistakes) for label, mistakes in mistakes_of if mistakes]
        images.append(TaskImages(task, thumbnail(task.task_id, section.runs, small), known))
    return images


def _with_mistakes(section: Section) -> list[tuple[str, Run]]:
    """(label, first run with mistakes) of the methods, that with the lowest mean error first, those
    without a point last.
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
