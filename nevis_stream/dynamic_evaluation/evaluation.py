"""The evaluation of one new model, given a board and a function that answers for the model."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from nevis_stream.dynamic_evaluation import methods
from nevis_stream.dynamic_evaluation.estimates import (
    ClustersGiven,
    Population,
    read_population,
)
from nevis_stream.dynamic_evaluation.fits import open_fits
from nevis_stream.dynamic_evaluation.new_models import (
    AskedModel,
    Asking,
    NewModel,
    evaluate_new_models,
)
from nevis_stream.dynamic_evaluation.told_files import read_if_file
from nevis_stream.errors import BadInput, unknown
from nevis_stream.progress import SILENT, Progress
from nevis_stream.queries.answering import UserFunction
from nevis_stream.queries.board import (
    Board,
    PricesGiven,
    check_board,
    check_common_mean,
    convert_budget,
)
from nevis_stream.queries.oracle import (
    Cost,
    Estimate,
    Oracle,
    Query,
    Responses,
    check_numbers,
)
from nevis_stream.queries.prices import Prices
from nevis_stream.queries.samples import Part

NEW_MODEL = "new model"
Values = Mapping[Any, Any] | Sequence[Any] | np.ndarray | str | Path
"""Values that are there: by id, of each sample in the order of the board, or in a file."""
AskModel = Callable[[list], "Sequence[float] | np.ndarray"] | Values
"""Takes b of a board's sample ids, returns b values, in the units of the board; or the values."""
AskMetrics = Callable[[list[str]], Sequence[Mapping[str, Any] | None]] | Values
"""Takes b of a board's prompts, returns b mappings of values by metric; or these mappings."""


def evaluate(
    board: Board,
    model: AskModel,
    budget: int | str,
    method: str | None = None,
    *,
    assume: str | None = None,
    seed: int = 0,
    prices: PricesGiven = None,
    population: str = "samples",
    clusters: ClustersGiven = None,
    progress: Progress = SILENT,
) -> Estimate:
    """Estimates a new model's mean over all samples of a board from a few of them.

    It does what the command `evaluate add-model` does with an evaluation cache, and writes nothing:
    what was fitted stays with the board, so a second model is evaluated faster; the cost is the
    same.

    Args:
      board: the known models.
      model: takes a list of sample ids, returns a value for each: 1 where the model is right and 0
        where it is wrong, or a score in the range of the sample. Where it has no answer (None, NaN,
        a text or an exception), a similar sample is asked instead, and the interval allows for any
        value. Or the values themselves: by id, an array in the order of `board.samples`, or a file
        that `tell` reads.
      budget: number of samples to ask; or an amount in a unit of price, "20000 tokens", "2.5
        dollars", "600 seconds", which is not exceeded.
      method: name of a method; None: `informed_mean`.
      assume: "like_known": new models are taken to be like the known ones. The estimate is then the
        model's own mean with a cross-validated interval, and `other` holds for any model.
      seed: of the method's random choices.
      prices: of the samples, in that unit: by id, in their order, or a file (see `read_prices`);
        None: those of the board's file.
      population: "samples": the estimate is of the mean over these samples; "superpopulation": of
        the mean over the population that they are drawn from at random, with a wider interval.
      clusters: of the samples, if they were drawn as clusters from that population, such as the
        questions on one text: a column of the board's samples, or a value for each in their order.
      progress: is told the stages.

    Returns: the estimate, in the units of the board. Its cost is of the method; what `model`
      computes is not in it.

    Raises:
      BadInput: the budget is above the number of samples, there is no such method or population,
        or a value is not valid.
      AnsweringFailed: later than in its first call, `model` raised a NameError or an ImportError,
        or failed ten times in a row alike. Whatever its first call raises is raised as it is.
    """
    board = check_board(board)
    facts = board.facts
    low, high = facts.ends
    check_common_mean(facts, "use `evaluate_metrics`.")
    method = methods.apply_assumption(method, assume)
    asked = convert_budget(board, budget, prices)
    function = UserFunction(read_if_file(model, board, NEW_MODEL), board.samples)

    def oracle(query: Query) -> Responses:
        columns = query.samples[0]
        ids = [board.samples[column] for column in columns.tolist()]
        found = function(ids)
        values = np.array([found[each] for each in ids], np.float64)  # NaN in place of None
        values = scale_values(values, ids, low[columns], high[columns], board.matrix.scores)
        return Responses(query, values[None], Cost(None))

    drawn_from = read_population(board, population, clusters)
    (found,) = _evaluate_one(board, oracle, asked, method, seed, drawn_from, progress)
    return found.estimate.scaled_to(found.part)


def evaluate_metrics(
    board: Board,
    model: AskMetrics,
    budget: int,
    method: str | None = None,
    *,
    assume: str | None = None,
    seed: int = 0,
    population: str = "samples",
    clusters: ClustersGiven = None,
    progress: Progress = SILENT,
) -> dict[str, Estimate]:
    """Estimates a new model's mean of each metric from the same few answers, where a board has
    several metrics of one prompt.

    The prompts are chosen by the first metric of the board, with known probabilities, and each is
    asked once; it counts once in the budget.

    Args:
      board: the known models, with columns PROMPT#METRIC.
      model: takes a list of prompts, returns for each the values by metric, as a harness has them
        of one answer. A prompt that lacks one of the metrics has no answer (see `evaluate`). Or
        these values by prompt, or a file of them.
      budget: number of prompts to ask.
      method: None: `model_assisted`, or random_mean: then all intervals hold for any new model; or
        random+PREDICTOR: for models like the known ones.
      seed, population, clusters, progress: as of `evaluate`.

    Returns: the estimate of each metric, by its name, in its units.

    Raises:
      BadInput: as of `evaluate`; or the method chooses samples by one metric.
      AnsweringFailed: as of `evaluate`.
    """
    board = check_board(board)
    facts, names = board.facts, board.ids
    if facts.prompt is None or facts.metric is None:
        raise BadInput("this board has one metric of each sample: use `evaluate`.")
    low, high = facts.ends
    metrics = list(dict.fromkeys(facts.metric.tolist()))
    metric_of = facts.metric.tolist()
    prompt_of = [name.removesuffix(f"#{each}") for name, each in zip(names, metric_of, strict=True)]
    given = read_if_file(model, board, NEW_MODEL)
    if given is not model:  # a file has a value for each metric of a prompt
        rows: dict[str, dict[str, Any]] = {}
        for name, prompt, metric in zip(names, prompt_of, metric_of, strict=True):
            rows.setdefault(prompt, {})[metric] = given.get(name)
        given = rows
    pair = partial(_pair_metrics, metrics)
    function = UserFunction(given, list(dict.fromkeys(prompt_of)), pair=pair)
    answered: dict[str, Mapping[str, Any]] = {}

    def oracle(query: Query) -> Responses:
        columns = query.samples[0]
        ids, asked, prompts = (
            [each[column] for column in columns.tolist()] for each in (names, metric_of, prompt_of)
        )
        if new := [each for each in dict.fromkeys(prompts) if each not in answered]:
            answered.update(function(new))
        given = [answered[prompt].get(each) for prompt, each in zip(prompts, asked, strict=True)]
        values = check_numbers(given)
        scores = board.matrix.scores
        values = scale_values(values, ids, low[columns], high[columns], scores)
        return Responses(query, values[None], Cost(None))

    drawn_from = read_population(board, population, clusters)
    method = methods.apply_assumption(method, assume)
    found = _evaluate_one(board, oracle, budget, method, seed, drawn_from, progress)
    by_metric = {each.part.name: each.estimate.scaled_to(each.part) for each in found}
    return {part.name: by_metric[part.name] for part in facts.parts}


def _pair_metrics(
    metrics: Sequence[str], prompts: Sequence[str], rows: Sequence[Any]
) -> dict[str, Mapping[str, Any]]:
    """Returns a model's values by metric of each prompt, {} where it has no answer."""
    if len(rows) != len(prompts):
        raise BadInput(f"the model was asked {len(prompts)} prompts and returned {len(rows)} rows.")
    found = {}
    for prompt, row in zip(prompts, rows, strict=True):
        found[prompt] = row if isinstance(row, Mapping) else {}  # else there is no answer
        if found[prompt] and not set(metrics) & set(found[prompt]):
            raise BadInput(
                f"the model's answer to {prompt!r}: {unknown('metric', next(iter(row)), metrics)}"
            )
    return found


def _evaluate_one(
    board: Board,
    oracle: Oracle,
    budget: int | Prices,
    method: str | None,
    seed: int,
    population: Population | None,
    progress: Progress,
) -> list[NewModel]:
    """Returns what is found of a new model on each part of a board's samples."""
    name, scores = NEW_MODEL, board.matrix.scores
    while name in board.models:
        name += " (new)"

    def make_row(name: str, part: Part, image: np.ndarray | None, others: np.ndarray) -> AskedModel:
        return AskedModel(name, part.columns, oracle, scores, image=image, others=others)

    how = Asking(budget, method, seed, population=population, progress=progress)
    return evaluate_new_models(board.matrix, [name], make_row, open_fits(board), how)


def scale_values(
    values: np.ndarray,
    ids: Sequence,
    low: np.ndarray,
    high: np.ndarray,
    scores: bool,
    place: Callable[[Any], str] | None = None,
) -> np.ndarray:
    """Returns values on the scale from 0 to 1, float64[b]; NaN, no answer, stays.

    Args:
      values: float64[b], in the units of a board.
      ids: of the samples, for messages.
      low, high: float64[b], the ends of each sample's range.
      scores: whether the board has scores, not outcomes.
      place: where the value of a sample stands, for messages.

    Raises:
      BadInput: a value is not valid.
    """
    scaled = (values - low) / (high - low)
    valid = np.isnan(values) | ((scaled >= 0) & (scaled <= 1))
    if not scores:
        valid &= np.isnan(values) | (scaled == 0) | (scaled == 1)
    if not valid.all():
        bad = int(np.argmin(valid))
        kind = f"from {low[bad]:g} to {high[bad]:g}"
        if not scores:
            kind = "0 or 1, since the board has outcomes"
        where = f"{place(ids[bad])}: " if place else ""
        raise BadInput(
            f"{where}the model's value on sample {ids[bad]!r} is {values[bad]:g}; it must be"
            f" {kind}."
        )
    return scaled


def check_answers(
    answers: Mapping[Any, Any],
    columns: Mapping[str, int],
    ends: tuple[np.ndarray, np.ndarray],
    scores: bool,
    place: Callable[[str], str],
) -> dict[str, float | None]:
    """Returns a model's answers as numbers by sample id, None where there is none.

    Args:
      answers: by sample, in the units of a board.
      columns: by id, of the board's samples; another sample is left to be refused by name.
      ends: of the range of each column, float64[n] twice.
      scores, place: as of `scale_values`.

    Raises:
      BadInput: a value is not valid.
    """
    if not hasattr(answers, "items"):  # a Series of pandas has it too
        raise BadInput(f"answers are expected by sample id, not {type(answers).__name__}.")
    ids = [str(sample) for sample, _ in answers.items()]
    values = check_numbers([value for _, value in answers.items()]).reshape(-1)
    known = [columns.get(sample, 0) for sample in ids]
    low, high = (end[known] for end in ends)
    scale_values(values, ids, low, high, scores, place)
    numbers = [None if np.isnan(value) else float(value) for value in values]
    return dict(zip(ids, numbers, strict=True))
