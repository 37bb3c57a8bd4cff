"""The results in sentences, and what is left out of them."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd
from markupsafe import Markup

from nevis_stream.analysis.methods import MethodPoint
from nevis_stream.analysis.regret import REFERENCE
from nevis_stream.analysis.seeds import shorten_name
from nevis_stream.analysis.verdict import is_decided, state_costs, state_verdict
from nevis_stream.cost.meter import format_times
from nevis_stream.errors import plural
from nevis_stream.report.notation import format_cost_spread, format_error_spread
from nevis_stream.report.parts.differences import sort_by_estimate
from nevis_stream.report.section import Section
from nevis_stream.report.svg import Drawing
from nevis_stream.report.templates import render
from nevis_stream.storage.reading import parse_json

TITLE = "Which method is better, and at what cost"
_MOST_ANSWERS = 5


def html(section: Section) -> Markup:
    """Returns the sentences, the statements about published and unfinished runs, and the facts of
    the stream.
    """
    published = [run for run in section.runs if run.published]
    own = [method for method in section.methods if not method.group.runs[0].published]
    tasks = len(section.tasks) if section.header.tasks is None else section.header.tasks
    summary = write_sentences(own or section.methods, tasks, section.judged_tasks)
    notes: dict[str, list[Path]] = {}
    for run in section.runs:
        for note in run.notes:
            notes.setdefault(note, []).append(run.path)
    pairs = sort_by_estimate(section.reference_comparisons)
    clear = [pair for pair in pairs[1:] if is_decided(pair)]
    # the best method is compared even where the data cannot tell
    shown = pairs[:1] + clear[: _MOST_ANSWERS - 1]
    answers = [f"{state_verdict(pair)} {state_costs(pair)}" for pair in shown]
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


def write_sentences(methods: Sequence[MethodPoint], tasks: int, judged: int) -> list[Markup]:
    """Returns a few sentences: what is compared, which method has the lowest error, which are on
    the front, and which have one seed only.

    Args:
      methods: points of one stream and protocol.
      tasks: of the stream.
      judged: tasks that the protocol judges.
    """
    with_points = [method for method in methods if not math.isnan(method.error.mean)]
    compared = _state_methods(methods, tasks, judged)
    if not with_points:
        none = "No method has a defined mean error yet, so there is no point and no front."
        return [compared, Markup(none)]
    best = min(with_points, key=lambda method: method.error.mean)
    return [
        compared,
        _state_lowest(best, with_points),
        *_state_front(methods),
        *_compare_with_indep(best, with_points),
        *_state_single_seeds(with_points),
    ]


def _state_methods(methods: Sequence[MethodPoint], tasks: int, judged: int) -> Markup:
    seeds = sorted({len(method.points) for method in methods})
    each = f"{seeds[0]} to {seeds[-1]} seeds" if len(seeds) > 1 else plural(seeds[0], "seed")
    learners = list(dict.fromkeys(_name_learner(method) for method in methods))
    text = "{} of {} ({}{}), {} each, on {}; {} judged."
    more = f" and {len(learners) - 8} more" if len(learners) > 8 else ""
    verb = "is" if judged == 1 else "are"
    return Markup(text).format(
        plural(len(methods), "method"),
        plural(len(learners), "learner"),
        ", ".join(learners[:8]),
        more,
        each,
        plural(tasks, "task"),
        f"{judged} {verb}",
    )


def _name_learner(method: MethodPoint) -> str:
    """Returns the learner's name without the settings that its label may have."""
    settings = method.group.runs[0].settings or {}
    name = parse_json(settings["learner"]) if "learner" in settings else method.group.learner
    return shorten_name(str(name).rpartition(":")[2])


def _state_lowest(best: MethodPoint, with_points: Sequence[MethodPoint]) -> Markup:
    ties = [method for method in with_points if method.error.mean == best.error.mean]
    total = best.paper_total
    cost = ""
    if not math.isnan(total.mean):
        cost = f", with {format_cost_spread(total) if total.mean else 'no'} FLOPs of training"
    value = f"{format_error_spread(best.error)} (n = {plural(best.error.n, 'seed')})"
    return Markup("Lowest mean error: {}, {}{}.").format(
        _join_names(ties), value, cost if len(ties) == 1 else ""
    )


def _state_front(methods: Sequence[MethodPoint]) -> Iterator[Markup]:
    front = sorted(
        (m for m in methods if m.on_paper_front), key=lambda method: method.paper_total.mean
    )
    if front:
        dominated = sum(
            not m.on_paper_front and not math.isnan(m.error.mean + m.paper_total.mean)
            for m in methods
        )
        rest = (
            f"; {plural(dominated, 'other')} {'is' if dominated == 1 else 'are'} dominated"
            if dominated
            else ""
        )
        yield Markup(
            "On the Pareto front of error and training FLOPs, cheapest first: {}{}."
        ).format(_join_names(front), rest)


def _compare_with_indep(best: MethodPoint, with_points: Sequence[MethodPoint]) -> Iterator[Markup]:
    alone = [method for method in with_points if method.group.learner.casefold() == REFERENCE]
    if not alone or best in alone:
        return
    reference = min(alone, key=lambda method: method.error.mean)
    text = (
        "{}, which trains a network for each task alone, has a mean error of {}, {} higher than {}"
    )
    higher = reference.error.mean - best.error.mean
    sentence = Markup(text).format(
        _join_names([reference]),
        format_error_spread(reference.error),
        f"{higher:.4f}",
        _join_names([best]),
    )
    costs = reference.paper_total.mean, best.paper_total.mean
    known = bool(best.paper_total.mean) and not math.isnan(sum(costs))
    yield sentence + (
        f", with {format_times(costs[0] / costs[1])} training FLOPs." if known else "."
    )


def _state_single_seeds(with_points: Sequence[MethodPoint]) -> Iterator[Markup]:
    single = [method for method in with_points if method.error.n == 1]
    if len(single) == len(with_points):
        yield Markup("Every method has one seed, so a small difference may be chance.")
    elif single:
        yield Markup("One seed only, so a small difference may be chance: {}.").format(
            _join_names(single)
        )


def _join_names(methods: Sequence[MethodPoint]) -> Markup:
    between = "; " if any("," in method.group.label for method in methods) else ", "
    return Markup(between).join(
        Markup("<strong>{}</strong>").format(method.group.label) for method in methods
    )
