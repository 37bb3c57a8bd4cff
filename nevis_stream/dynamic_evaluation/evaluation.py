"""The evaluation of one new model, given a board and a function that answers for the model."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

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
from nevis_stream.errors import BadInput, unknown
from nevis_stream.progress import SILENT, Progress
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
    numbers_of_each,
)
from nevis_stream.queries.prices import Prices
from nevis_stream.queries.samples import Part, SampleFacts
from nevis_stream.user_calls import ReadOnlyList

AskModel = Callable[[list], "Sequence[float] | np.ndarray"]
"""Takes b of a board's sample ids, returns b values, in the units of the board."""
AskMetrics = Callable[[list[str]], Sequence[Mapping[str, Any] | None]]
"""Takes b of a board's prompts, returns b mappings of values by metric."""


def evaluate(
    board: Board,
    model: AskModel,
    budget: int | str,
    method: str | None = None,
    *,
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
        value.
      budget: number of samples to ask; or an amount in a unit of price, "20000 tokens", "2.5
        dollars", "600 seconds", which is not exceeded.
      method: name of a method; None: the one with the smallest cross-validation errors on the known
        models.
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
    """
    board = check_board(board)
    facts = board.facts
    low, high = sample_ranges(facts)
    check_common_mean(facts, "use `evaluate_metrics`.")
    asked = convert_budget(board, budget, prices)

    def oracle(query: Query) -> Responses:
        columns = query.samples[0]
        values = _ask_model(board, model, columns, low, high)
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
        of one answer. A prompt that lacks one of the metrics has no answer (see `evaluate`).
      budget: number of prompts to ask.
      method: None: `model_assisted`, or random_mean: then all intervals hold for any new model; or
        random+PREDICTOR: for models like the known ones.
      seed, population, clusters, progress: as of `evaluate`.

    Returns: the estimate of each metric, by its name, in its units.

    Raises:
      BadInput: as of `evaluate`; or the method chooses samples by one metric.
    """
    board = check_board(board)
    facts, names = board.facts, board.ids
    if facts.prompt is None or facts.metric is None:
        raise BadInput("this board has one metric of each sample: use `evaluate`.")
    low, high = sample_ranges(facts)
    metrics = list(dict.fromkeys(facts.metric.tolist()))
    answered: dict[str, Mapping[str, Any]] = {}

    def oracle(query: Query) -> Responses:
        columns = query.samples[0]
        asked = facts.metric[columns].tolist()
        ids = [names[column] for column in columns.tolist()]
        prompts = [name.removesuffix(f"#{each}") for name, each in zip(ids, asked, strict=True)]
        new = ReadOnlyList(each for each in dict.fromkeys(prompts) if each not in answered)
        if new:
            answered.update(_pair_metrics(new, model(new), metrics))
        given = [answered[prompt].get(each) for prompt, each in zip(prompts, asked, strict=True)]
        values = check_numbers(given)
        scores = board.matrix.scores
        values = scale_values(values, ids, low[columns], high[columns], scores)
        return Responses(query, values[None], Cost(None))

    drawn_from = read_population(board, population, clusters)
    found = _evaluate_one(board, oracle, budget, method, seed, drawn_from, progress)
    by_metric = {each.part.name: each.estimate.scaled_to(each.part) for each in found}
    return {part.name: by_metric[part.name] for part in facts.parts}


def _pair_metrics(
    prompts: Sequence[str], rows: Sequence[Any], metrics: Sequence[str]
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
    name, scores = "new model", board.matrix.scores
    while name in board.models:
        name += " (new)"

    def make_row(name: str, part: Part, image: np.ndarray | None, others: np.ndarray) -> AskedModel:
        return AskedModel(name, part.columns, oracle, scores, image=image, others=others)

    how = Asking(budget, method, seed, population=population, progress=progress)
    return evaluate_new_models(board.matrix, [name], make_row, open_fits(board), how)


def _ask_model(
    board: Board, model: AskModel, columns: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """Returns a model's values on some columns on the scale of the cache, float64[b], NaN where
    there is none.
    """
    ids = ReadOnlyList(board.samples[column] for column in columns.tolist())
    values = numbers_of_each(model(ids), len(ids))
    return scale_values(values, ids, low[columns], high[columns], board.matrix.scores)


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


def sample_ranges(facts: SampleFacts) -> tuple[np.ndarray, np.ndarray]:
    """Returns the lower and the upper end of each sample's range, float64[n] twice."""
    low = np.zeros(facts.n) if facts.low is None else facts.low.astype(np.float64)
    high = np.ones(facts.n) if facts.high is None else facts.high.astype(np.float64)
    return low, high
