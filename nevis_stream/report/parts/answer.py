"""The results in sentences, and what is left out of them."""

from pathlib import Path

import pandas as pd
from markupsafe import Markup

from nevis_stream.analysis.verdict import cost_statement, is_decided, verdict
from nevis_stream.errors import plural
from nevis_stream.report.answer_sentences import sentences
from nevis_stream.report.forest import by_estimate
from nevis_stream.report.section import Section
from nevis_stream.report.svg import Drawing
from nevis_stream.report.templates import render

TITLE = "Which method is better, and at what cost"
_MOST_ANSWERS = 5


def html(section: Section) -> Markup:
    """Returns the sentences, the statements about published and unfinished runs, and the facts of
    the stream.
    """
    published = [run for run in section.runs if run.published]
    own = [method for method in section.methods if not method.group.runs[0].published]
    tasks = len(section.tasks) if section.header.tasks is None else section.header.tasks
    summary = sentences(own or section.methods, tasks, section.judged)
    notes: dict[str, list[Path]] = {}
    for run in section.runs:
        for note in run.notes:
            notes.setdefault(note, []).append(run.path)
    pairs = by_estimate(section.against_reference)
    clear = [pair for pair in pairs[1:] if is_decided(pair)]
    # the best method is compared even where the data cannot tell
    shown = pairs[:1] + clear[: _MOST_ANSWERS - 1]
    answers = [f"{verdict(pair)} {cost_statement(pair)}" for pair in shown]
    hidden = len(pairs) - len(shown)
    if hidden:
        undecided = len(pairs[1:]) - len(clear)
        share = f", {undecided} of them undecided or equal" if undecided else ""
        answers.append(
            f"{plural(hidden, 'more comparison')} with the reference{share},"
            f" {'are' if hidden > 1 else 'is'} left out here; the table “All pairs” below, under"
            " “Differences in error between methods”, has every pair of methods."
        )
    return render(
        "parts/answer.html",
        section=section,
        answers=answers,
        sentences=summary,
        published=published,
        notes=notes,
    )


def tables(section: Section) -> dict[str, pd.DataFrame]:
    """Returns none: the points are the summary's numbers."""
    return {}


def figures(section: Section) -> dict[str, Drawing]:
    """Returns none."""
    return {}
