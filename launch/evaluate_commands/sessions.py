"""`launch.evaluate start`, `ask`, `tell`, `status`, `compare` and `report`: live evaluation."""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
from absl.flags import FlagValues
from rich.table import Table

from nevis_stream.dynamic_evaluation import methods
from nevis_stream.dynamic_evaluation.comparison import (
    compare_models,
    compare_two,
    describe_difference,
)
from nevis_stream.dynamic_evaluation.planning import plan as make_plan
from nevis_stream.dynamic_evaluation.session import Session
from nevis_stream.dynamic_evaluation.session_view import find_likely_failures
from nevis_stream.dynamic_evaluation.stopping import expect_answers
from nevis_stream.dynamic_evaluation.told_files import read_told_answers
from nevis_stream.errors import BadInput, plural
from nevis_stream.evaluation_cache.boards import read_board
from nevis_stream.evaluation_cache.importers.harness_requests import (
    format_for_inspect,
    format_for_lm_eval,
)
from nevis_stream.launch import entry
from nevis_stream.launch.command_line import format_estimate, make_console
from nevis_stream.launch.evaluate_commands.flags import get_reading_choices, parse_count_or_price
from nevis_stream.queries.board import Board
from nevis_stream.storage import write_file
from nevis_stream.storage.tables import encode_csv
from nevis_stream.terminal import TerminalProgress, is_plain_line


def start(words: Sequence[str], values: FlagValues) -> None:
    """Begins the session --out over a leaderboard."""
    entry.use_compilation_cache()
    if values.budget is not None:
        parse_count_or_price(values.budget)
    board = _read_board(words[0], values)
    count = None
    if values.budget is not None:
        count = parse_count_or_price(values.budget, board.shape[1], "samples")
    with TerminalProgress("start") as progress:
        session = Session.start(
            values.out,
            board,
            count,
            models=values.model,
            method=values.method,
            assume=values.assume,
            seed=values.seed,
            until=values.until,
            until_better_than=values.until_better_than,
            until_decided=values.until_decided,
            prices=values.prices,
            progress=progress,
        )
    settings = session.settings
    print(f"session of {', '.join(settings.models)}: method {settings.method}; {session.rule}")
    if settings.unit is not None:
        print(f"  expected, by a known model: {session.fitted.rehearse()}")
    if session.stopping.growing:
        counts = expect_answers(session.fitted, settings.until)
        few, median, many = (counts[int(q * (len(counts) - 1))] for q in (0.1, 0.5, 0.9))
        print(f"  expected: about {median:,} answers ({few:,} to {many:,} of 8 in 10 known models)")
    if settings.reason:
        print(f"  method {settings.method}: {settings.reason}")
    if methods.get(settings.method).policy.adaptive:
        print(
            "  the method chooses samples in rounds: the next when the last ones are told; to ask"
            " all at once: --method=stratified_mean"
        )
    _print_next(session, values.out)


def _read_board(path: str, values: FlagValues) -> Board:
    """Returns the board that a user named, and prints what was understood."""
    reading = {name: each for name, each in get_reading_choices(values).items() if each}
    if values["errors"].using_default_value:
        del reading["errors"]
    board = read_board(Path(path), **reading)
    print(*board.understood or [repr(board)], sep="\n")
    return board


def plan(words: Sequence[str], values: FlagValues) -> None:
    """Prints how many answers a new model of a board needs, and writes the budgets to --csv."""
    board = _read_board(words[0], values)
    if wrong := [each for each in values.budgets if not each.isdecimal()]:
        raise BadInput(f"--budgets: {wrong[0]!r} is not a number of samples.")
    budgets = [int(each) for each in values.budgets] or None
    with TerminalProgress("plan") as progress:
        found = make_plan(board, budgets, method=values.method, seed=values.seed, progress=progress)
    print(found)
    if values.csv:
        write_file(Path(values.csv), encode_csv(found.to_pandas()))
        print(f"written: {values.csv}")


def _print_next(session: Session, directory: str) -> None:
    """Prints the command that comes next: of several models `ask` for one that has not ended."""
    left = [model for model in session.settings.models if not session.has_ended(model)]
    command, of_model = "ask" if left else "status", ""
    if left and len(session.settings.models) > 1:
        of_model = f" --model={quote(left[0])}"
    typed = entry.as_typed(f"python -m launch.evaluate {command}")
    print(f"next: {typed} {quote(directory)}{of_model}")


def ask(words: Sequence[str], values: FlagValues) -> None:
    """Prints the samples to evaluate next, and nothing else on standard output."""
    entry.use_compilation_cache()
    session = Session(words[0])
    given = session.ask(values.count, values.model, worker=values.worker)
    if not given:
        whose = "the session" if values.model is None else f"model {values.model}"
        ended = session.has_ended(values.model)
        state = "has ended" if ended else "waits for answers of other workers"
        print(f"nothing to ask: {whose} {state}", file=sys.stderr)
        return
    samples = [session.ids[each] if isinstance(each, int) else each for each in given]
    if values.format == "lm_eval":
        print(json.dumps(format_for_lm_eval(session.cache, samples)))
    elif values.format == "inspect":
        print(format_for_inspect(session.cache, samples))
    elif values.format == "json":
        print(json.dumps(samples))
    elif odd := [each for each in samples if not is_plain_line(each)]:
        raise BadInput(
            f"sample {odd[0]!r}: has a control character or a new line, so a line that is printed"
            " would be another id. Ask with --format=json."
        )
    else:
        print(*samples, sep="\n")


def tell(words: Sequence[str], values: FlagValues) -> None:
    """Records the answers of files."""
    directory, *files = words
    if not files:
        raise BadInput("tell needs the session's directory and at least one file of answers.")
    session = Session(directory)
    if values.model is not None and values.model not in session.settings.models:
        session.has_ended(values.model)  # names the valid ones
    for file in files:
        tell_file(session, Path(file), values.model, values)
    counts = {model: len(session.waiting(model)) for model in session.settings.models}
    waiting = [f"{plural(count, 'sample')} of {model}" for model, count in counts.items() if count]
    if waiting:
        print(f"asked and not told yet: {', '.join(waiting)}")
    _print_next(session, directory)


def tell_file(session: Session, file: Path, model: str | None, values: FlagValues) -> None:
    """Records the answers of a file or folder, and prints how it was understood.

    Args:
      session: gains the answers.
      file: its path.
      model: whose the answers are; None: the file says it, or there is only one.
      values: flags of `tell`.
    """
    names, reading = session.settings.models, get_reading_choices(values)
    told = read_told_answers(session.board, names, file, model, reading)
    for line in told.remarks:
        print(f"{file}: {line}")
    correct = "correct" in values and values.correct
    place = lambda sample: told.places.get(sample, str(file))  # noqa: E731
    new = session.record(told.answers, str(file), correct, place)
    total = sum(map(len, told.answers.values()))
    same = f", {total - new} as before" if total > new else ""
    print(f"{file}: {plural(new, 'answer')} recorded{same}")


def print_status(words: Sequence[str], values: FlagValues) -> None:
    """Prints the estimates; ends with status 1 as long as the session goes on."""
    entry.use_compilation_cache()
    show_status(Session(words[0]), population=values.population, clusters=values.clusters)


def show_status(session: Session, **of: Any) -> None:
    """Prints the estimates, with arguments as of `Session.status`; ends the process with status 1
    if the session goes on.
    """
    rows = session.status(**of)
    table = Table("model", "estimate", "95% interval", "answers", "no answer", "waiting")
    for each in rows:
        estimate = each.estimate
        value, interval = format_estimate(estimate)
        answers = f"{each.answered:,} of {each.budget:,}"
        waiting = "ended" if each.ended else f"{each.waiting:,}"
        table.add_row(each.model, value, interval, answers, f"{each.failed:,}", waiting)
    make_console().print(table)
    for each in rows:
        if each.estimate.spending is not None:
            print(f"{each.model}: {each.estimate.spending}")
    over = dict.fromkeys(each.estimate.mean_over for each in rows if each.estimate.mean_over)
    for each in over:
        print(f"estimates are of the mean over {each}")
    for each in rows:
        if not np.isnan(each.estimate.low):
            print(f"{each.model}: the interval holds for {each.estimate.holds_for}")
        if each.estimate.other_text:
            print(f"{each.model}: {each.estimate.other_text}")
    print(f"method {session.settings.method}; {session.rule}")
    for line in session.corrections():
        print(line)
    if not all(each.ended for each in rows):
        sys.exit(entry.INCOMPLETE)


def compare(words: Sequence[str], values: FlagValues) -> None:
    """Prints which model of a session is the best, or the difference of two models."""
    entry.use_compilation_cache()
    session, names = Session(words[0]), words[1:]
    if not names:
        print(compare_models(session))
        return
    if len(names) != 2:
        raise BadInput("compare needs the session's directory alone, or with two models.")
    first, second = names
    print(describe_difference(first, second, compare_two(session, first, second)))


def report(words: Sequence[str], values: FlagValues) -> None:
    """Writes a page with the estimates and how they came."""
    entry.use_compilation_cache()
    import pandas as pd  # here, as `ask` and `tell` need no page: half a second

    from nevis_stream.report.study_page import Line, Picture, StudyChapter, write_study

    session = Session(words[0])
    rows, pictures = [], []
    of = {"population": values.population, "clusters": values.clusters}
    for number, each in enumerate(session.status(**of)):
        estimate = each.estimate
        spending = estimate.spending and asdict(estimate.spending)
        rows.append(
            {
                "model": each.model,
                "estimate": estimate.value,
                "low": estimate.low,
                "high": estimate.high,
                "holds for": estimate.holds_for,
                "mean over": estimate.mean_over,
                "why no interval": estimate.reason,
                "answers": each.answered,
                "without an answer": each.failed,
                "ended": each.ended,
            }
            | (spending or {})
        )
        track, (part,) = session.track(each.model), session.cache.facts().parts
        ends = session.stopping.intervals(track)
        if len(track.drawn):
            low, high = (np.array([part.unscale(value) for value in end]) for end in ends)
            seen = ~np.isnan(track.drawn_values)
            sums = np.where(seen, track.drawn_values, 0).cumsum() / np.maximum(seen.cumsum(), 1)
            value = np.clip(np.array([part.unscale(each) for each in sums]), low, high)
            counts = np.arange(1, len(value) + 1, dtype=float)
            title = f"{each.model}: mean of the answers, and 95% interval at all numbers together"
            line = Line(each.model, counts, value, (low, high), marked=False)
            pictures.append(Picture(f"estimate-{number}", title, [line], "answers", "mean"))
    settings = session.settings
    introduction = (
        f"Method {settings.method}, seed {settings.seed}, {settings.samples:,} samples; the session"
        f" {session.rule}."
    )
    note = "" if pictures or session.ended else "No interval before all answers are there."
    note = " ".join([note, *(f"It {line}." for line in session.corrections())]).strip()
    chapter = StudyChapter("Estimates", note, pictures, pd.DataFrame(rows), "estimates")
    failures = pd.concat(
        find_likely_failures(session, model).assign(model=model) for model in settings.models
    )
    if len(failures):
        content = encode_csv(failures[["model", "sample", "probability"]])
        write_file(session.directory / "report" / "failures.csv", content)
    chapters = [chapter]
    if settings.until_decided is not None:
        found = compare_models(session)
        pairs = [
            {
                "model": model,
                "other model": other,
                "model is better by": each.value,
                "low": each.low,
                "high": each.high,
                "probability that it is": each.probability,
                "shared samples": each.shared,
            }
            for (model, other), each in found.differences.items()
        ]
        note = f"{found.ranking}. Each 95% interval holds at every number of answers."
        chapters.append(StudyChapter("Differences", note, table=pd.DataFrame(pairs)))
    print(write_study(session.directory / "report", "Live evaluation", introduction, chapters))
