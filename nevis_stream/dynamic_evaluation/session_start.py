"""The start of a session of live evaluation: its method is chosen and fitted, its board copied; and
the later corrections of the cache that the board was copied from.

A session rests on its own copy of the known models' values, so that nothing changes under it. What
`evaluate remove` and `amend` correct in the cache later is said beside its estimates, which stay as
they are.
"""

import contextlib
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nevis_stream.dynamic_evaluation import methods
from nevis_stream.dynamic_evaluation.fits import FOLDER, Fits
from nevis_stream.dynamic_evaluation.fitted_board import FittedBoard, digest_board
from nevis_stream.dynamic_evaluation.known_models import read_known
from nevis_stream.dynamic_evaluation.new_models import check_can_be_priced, fit_method
from nevis_stream.dynamic_evaluation.session_records import (
    ANSWERS,
    ROUNDS,
    Answer,
    AskedRound,
    Cell,
    EvaluationSettings,
    digest_prices,
    write_prices,
)
from nevis_stream.dynamic_evaluation.stopping import (
    END,
    Rule,
    check_draws,
    choose_session_method,
    warn_if_late,
)
from nevis_stream.errors import BadInput, NevisStreamError
from nevis_stream.evaluation_cache import EvaluationCache, make_cache_board
from nevis_stream.evaluation_cache.importers.harness_requests import check_names
from nevis_stream.evaluation_cache.index import BOARD
from nevis_stream.progress import Progress
from nevis_stream.queries.board import Board
from nevis_stream.queries.oracle import check_budget
from nevis_stream.queries.prices import Prices
from nevis_stream.queries.session_log import MessageTerms, SessionLog
from nevis_stream.seeds import LEAST, check_seed
from nevis_stream.storage import write_file
from nevis_stream.storage.reading import locate, make_relative, read_json
from nevis_stream.storage.record import as_lines
from nevis_stream.vocabulary import ASSUMPTIONS

SOURCE = "source.json"


def copy_board(board: Board, directory: Path) -> EvaluationCache:
    """Copies a board's values and its stored fits to a cache in a directory; a whole copy that a
    killed start has left there is kept, with what was fitted.
    """
    with contextlib.suppress(NevisStreamError):
        cache = EvaluationCache(directory)
        if digest_board(make_cache_board(cache)) == digest_board(board):
            return cache
    shutil.rmtree(directory, ignore_errors=True)
    board.write(directory)
    if board.directory is not None and (board.directory / FOLDER).is_dir():
        shutil.copytree(board.directory / FOLDER, directory / FOLDER, dirs_exist_ok=True)
    return EvaluationCache(directory)


def write_source(directory: Path, cache: Path) -> None:
    """Writes from which cache the board of a session is copied."""
    path = make_relative(cache, directory)
    write_file(directory / SOURCE, as_lines({"cache": path}).encode())


def list_later_corrections(directory: Path, board: EvaluationCache) -> list[str]:
    """Returns a line for each correction of the cache, since the session began, that changes the
    values of its known models; [] if there is no cache to look into.

    Args:
      directory: of the session.
      board: the copy of its board.
    """
    file = directory / SOURCE
    if not file.is_file():  # the board was a file or an array, or an earlier version began it
        return []
    try:
        path = Path(locate(read_json(file)["cache"], directory))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{file}: damaged ({error}). Put a copy of the file back.") from None
    try:
        source = EvaluationCache(path)
        records = source.errata()
    except NevisStreamError:
        return [f"the board's cache, {path}, cannot be read: later corrections are not known"]
    known = {each.to_text() for each in board.errata()}
    models, samples = {*board.models()}, {*board.samples()}
    lines = []
    for record in records:
        if record.to_text() in known:
            continue
        touched = any(
            model in models and not samples.isdisjoint(cells)
            for model, cells in record.values.items()
        )
        removed = not record.values and all(
            names is None or not own.isdisjoint(names)
            for names, own in ((record.models, models), (record.samples, samples))
        )
        if touched or removed:
            lines.append(f"rests on values from before a correction: {record.line()}")
    return lines


TERMS = MessageTerms(
    session="evaluation session",
    answer="answer",
    asked="asked",
    busy="is choosing samples in this session. Wait for it.",
    again="tell the answers again",
)
_OTHER_SESSION = "this directory contains another session ({difference}). Choose another one."


def begin(
    directory: Path,
    board: Board,
    rule: Rule,
    models: Sequence[str],
    method: str | None,
    seed: int,
    progress: Progress,
) -> FittedBoard | None:
    """Writes the files of a session, or checks that they are of the same one; arguments as of
    `session.Session.start`.

    Returns: the fitted board of a session that begins now, None of one that had begun. What asking
    needs is compiled, so the first `ask` does not wait for it, nor do later commands that share the
    cache of compiled programs.
    """
    _check_names(models, board.models)
    seed = check_seed(seed, LEAST)
    named, method = method, choose_session_method(board, method, rule, len(models))
    if rule.budget is None and not rule.by_interval:
        raise BadInput("give a budget, or `until`, `until_better_than` or `until_decided`.")
    samples, prices = board.shape[1], None
    board_key = digest_board(board)
    if isinstance(rule.budget, Prices):
        if rule.by_interval:
            raise BadInput(
                "`until`, `until_better_than` and `until_decided` need a budget that is a number of"
                " samples, or none."
            )
        prices, method = rule.budget, method or methods.DEFAULT_WITH_PRICES
        budget = _count_affordable(board, method, prices)
    else:
        budget = samples if rule.budget is None else check_budget(rule.budget, samples)
    settings = {
        "models": list(models),
        "budget": budget,
        "seed": seed,
        "board": board_key,
        "samples": samples,
        "until": None if rule.until is None else float(rule.until),
        "until_better_than": rule.until_better_than,
        "until_decided": rule.until_decided,
        "numbered": not board.samples or isinstance(board.samples[0], int),
    }
    if prices is not None:
        settings |= {
            "unit": prices.unit,
            "amount": prices.budget,
            "prices": digest_prices(prices),
        }
    log = SessionLog[AskedRound, Cell, Answer](
        directory, ROUNDS, ANSWERS, TERMS, lambda *_: [], lambda _: {}
    )
    chosen: dict[str, Any] = {"method": method, "reason": ""}
    ends_early = rule.until is not None or rule.until_better_than is not None
    settings |= {"assisted": True} if ends_early else {}
    shared = rule.until_decided is not None and rule.budget is not None
    if log.settings.exists():  # what was chosen then
        begun = log.read_settings(EvaluationSettings.parse, "")
        settings |= {"assisted": begun.assisted}
        shared = shared and begun.answers is not None
        assumed = begun.method.removeprefix(f"{methods.DEFAULT}_") in ASSUMPTIONS
        if method == begun.method or (named is None and not assumed):
            chosen = {"method": begun.method, "reason": begun.reason}
    else:
        check_names(board.ids, board.describe_samples())

    if shared:
        answers = budget * len(models)
        budget = min(answers, samples)
        settings |= {"answers": answers, "budget": budget}

    fitted = None

    def prepare() -> None:
        nonlocal fitted
        progress.stage("copying the board")
        copy = make_cache_board(copy_board(board, directory / BOARD))
        if board.directory is not None:
            write_source(directory, board.directory)
        if prices is not None:
            write_prices(directory, prices, copy.ids)
        known = read_known(copy.matrix, copy.facts.parts[0].columns, prices=prices)
        fits = Fits(copy.directory)
        name, _ = fit_method(known, fits, budget, method, seed=seed, progress=progress)
        fitted = FittedBoard(copy, name, budget, seed, prices)
        if rule.by_interval:
            if rule.until is None or not methods.is_growing(name):
                check_draws(name, END)  # all that it asks is drawn at once: nothing is compiled
            if rule.until is not None and budget == samples and not methods.is_growing(name):
                warn_if_late(fitted, rule.until, seed)
        else:
            progress.stage("compiling")
            fitted.rehearse()
        # the method that was asked for, also where few known models make it fall back to another
        chosen.update(method=method or name)

    log.start(lambda: _format_settings(settings | chosen), _OTHER_SESSION, prepare)
    return fitted


def _count_affordable(board: Board, method: str, prices: Prices) -> int:
    """Returns how many samples of each model a method asks for a budget in prices."""
    facts = board.facts
    check_can_be_priced(facts)
    known = read_known(board.matrix, facts.parts[0].columns, prices=prices)
    return methods.count_affordable(method, known)


def _format_settings(values: Mapping[str, Any]) -> str:
    return as_lines(EvaluationSettings(**values).to_json())


def _check_names(models: Sequence[str], known: Sequence[str]) -> None:
    """Refuses names of new models that are given twice or known, or that files of answers would
    not keep.
    """
    if isinstance(models, str) or not models:
        raise BadInput("models: a list of names is expected, at least one.")
    for name in models:
        if not isinstance(name, str) or not name.strip():
            raise BadInput(f"models: {name!r} is no name.")
        if name != name.strip() or not name.isprintable():
            raise BadInput(
                f"models: {name!r} has a blank at an end, or a character that cannot be printed,"
                " which files of answers would not keep. Give it another name."
            )
        if list(models).count(name) > 1:
            raise BadInput(f"models: {name!r} is given twice.")
        if name in set(known):
            raise BadInput(
                f"models: the board has a model {name!r}, from which the method would learn. Give"
                " the new one another name, or take it out of the board."
            )
