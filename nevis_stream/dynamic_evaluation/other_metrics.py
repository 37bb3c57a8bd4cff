"""Another metric of the samples that a session has asked, estimated without a further query."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.dynamic_evaluation import methods
from nevis_stream.dynamic_evaluation.evaluation import scale_values
from nevis_stream.dynamic_evaluation.fitted_board import FittedBoard
from nevis_stream.dynamic_evaluation.session import Session
from nevis_stream.dynamic_evaluation.told_files import read_told_answers
from nevis_stream.errors import BadInput, plural
from nevis_stream.evaluation_cache.facts import METRIC
from nevis_stream.queries.board import Board, check_board
from nevis_stream.queries.oracle import Estimate, numbers_of_each


def estimate_metric(
    session: Session,
    board: Board,
    answers: Mapping[Any, Any] | str | Path,
    model: str | None = None,
    **how: Any,
) -> Estimate:
    """Returns the estimate of another metric from the samples that a session has asked.

    A harness answers a prompt once and gives several metrics: one is told to the session, by which
    the samples are drawn, and the others are estimated from the same draws. The interval holds for
    the models that the session's holds for.

    Args:
      session: has ended, by its budget; its method is `model_assisted`, random_mean or
        random+PREDICTOR.
      board: the known models' values of the other metric, on the same samples.
      answers: by sample id, the model's values in the units of the board, at least of the samples
        that were asked; or a file that `tell` reads, or a folder of the logs of all rounds.
      model: its name in the session; None: the only one.
      **how: a file or logs are read, such as value_range, as of `read_board`.

    Raises:
      BadInput: the session has not ended, or ends by its interval; its method chooses samples by
        one metric; the samples are others; or a value is missing or not valid.
    """
    if not isinstance(session, Session):
        raise BadInput("the session is an object: Session(directory).")
    if not isinstance(answers, Mapping | str | Path):
        raise BadInput("answers: values by sample id, a dict, or the path of a file.")
    board, settings, track = check_board(board), session.settings, session.track(model)
    if session.stopping.by_interval or settings.unit is not None:
        raise BadInput("another metric is estimated for a budget that is a number of samples.")
    if not session.has_ended(track.model) or int(track.answered.sum()) < settings.budget:
        raise BadInput(f"{track.model}: {settings.budget:,} answers are needed first.")
    if set(board.ids) != set(session.ids):
        raise BadInput("the board of the other metric has other samples than the session.")
    method = methods.get_within_budget(settings.method)
    methods.check_several_metrics(method.choose_for_known(session.fitted.known))
    fitted = FittedBoard(
        board,
        settings.method,
        settings.budget,
        settings.seed,
        samples=session.ids,
        kept=False,
    )
    methods.check_several_metrics(method.choose_for_known(fitted.known))
    query, told_values = track.answered_query, track.values[track.answered]
    ids = [session.ids[column] for column in query.samples[0].tolist()]
    if isinstance(answers, Mapping) and how:
        raise BadInput(f"{', '.join(how)}: of a file; values by sample are in the board's units.")
    if not isinstance(answers, Mapping):
        reading = {"metrics": _list_metrics(board)} | how
        told = read_told_answers(board, settings.models, Path(answers), track.model, reading)
        answers = told.answers.get(track.model, {})
    texts = {str(sample): value for sample, value in answers.items()}
    if lost := [sample for sample in ids if sample not in texts]:
        raise BadInput(
            f"no value of the other metric on {plural(len(lost), 'sample')} that was asked, for"
            f" example {lost[0]!r}."
        )
    (part,) = board.facts.parts
    low, high = (np.full(len(ids), end) for end in (part.low, part.high))
    values = numbers_of_each([texts[sample] for sample in ids], len(ids))
    values = scale_values(values, ids, low, high, board.matrix.scores)
    if np.isnan(values).any():
        raise BadInput(
            f"the other metric has no number on {ids[int(np.isnan(values).argmax())]!r}."
        )
    values = values.astype(np.float32 if board.matrix.scores else np.uint8)
    return fitted.estimate(query, values, track.failed, True, beside=(session.fitted, told_values))


def _list_metrics(board: Board) -> list[str]:
    """Returns the names of the metrics that a board's samples name."""
    named = {str(each.get(METRIC) or "") for each in board.describe_samples()}
    return sorted(named - {""})
